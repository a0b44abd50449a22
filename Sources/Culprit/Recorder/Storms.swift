import CulpritStallRecord

/// Decides which stalls of sections are recorded and which are only counted.
///
/// While many sections of one name are late at one place, the first eight are recorded, then one a second. The others
/// are only counted, so that a storm costs a bounded amount of memory, disk and reports. Each counted stall belongs to
/// the count of exactly one recorded stall.
struct Storms {
  /// Maximum number of simultaneously recorded stalls: of one name at one place, and of all sections.
  static let recordedMax = 8
  static let allRecordedMax = 64
  /// Minimum time between two further recorded stalls of a storm, in nanoseconds.
  static let interval: UInt64 = 1_000_000_000
  /// Time after which a changed count is noted again while the stall continues, in nanoseconds.
  private static let noteInterval: UInt64 = 10_000_000_000

  /// The place where work is suspended or blocked: the innermost frames of its stack.
  struct Place: Hashable {
    private let addresses: [RuntimeAddress]
    private static let frames = 8

    /// The place of a stall without a stack.
    static let unknown = Place(addresses: [])
    /// Stands for all new places while the maximum number of stalls is recorded.
    fileprivate static let others = Place(addresses: [RuntimeAddress(.max)])

    private init(addresses: [RuntimeAddress]) { self.addresses = addresses }

    init(_ stack: Stack) { addresses = stack.frames.prefix(Self.frames).map(\.address) }
  }

  /// A stall under way.
  struct Member {
    fileprivate let source: WatchedSource
    fileprivate(set) var place: Place
    /// Time of the declaration, or of its place's last count if that is later, by the observer's clock.
    fileprivate var began: UInt64
    fileprivate(set) var isRecorded: Bool
    /// Number and total time of the stalls in this stall's count.
    fileprivate var unrecorded = 0
    fileprivate var unrecordedTime: UInt64 = 0
    /// The last noted count, and the time of the note.
    fileprivate var notedCount = 0
    fileprivate var notedTime: UInt64 = 0
  }

  /// The stalls at one place.
  private struct AtPlace {
    var count = 0
    var recorded = 0
    var lastRecorded: UInt64 = 0
    /// Counted stalls that belong to no recorded stall's count yet, and their time.
    var owed = 0
    var owedTime: UInt64 = 0
    /// Counted stalls under way, and the sum of the times from which their time is owed.
    var counted = 0
    var sinceSum: UInt64 = 0
    /// Time at which the owed stalls were last added to a count.
    var lastTaken: UInt64 = 0

    /// Whether no stall at this place is under way or owed.
    var isOver: Bool { recorded == 0 && counted == 0 && owed <= 0 && owedTime == 0 }

    /// Whether another stall can be recorded after the first ones.
    func isDue(_ now: UInt64) -> Bool {
      recorded < Storms.recordedMax && now &- lastRecorded >= Storms.interval
    }

    mutating func record(_ now: UInt64) {
      recorded += 1
      lastRecorded = now
    }

    /// Clears the owed stalls at `now`. Returns their time.
    mutating func take(_ now: UInt64) -> UInt64 {
      // The difference is negative if the clock was set back.
      let time = UInt64(max(0, Int64(bitPattern: owedTime &+ UInt64(counted) &* now &- sinceSum)))
      (owed, owedTime, sinceSum, lastTaken) = (min(0, owed), 0, UInt64(counted) &* now, now)
      return time
    }

    mutating func count(since: UInt64) {
      counted += 1
      sinceSum &+= since
    }

    mutating func stopCounting(_ member: Member) {
      counted -= 1
      sinceSum &-= max(member.began, lastTaken)
    }
  }

  /// The stalls of one source under way.
  private struct OfSource {
    var since = WallTime(nanosecondsSince1970: 0)
    var underWay = 0
    var count = 0
    var hasCounted = false
    var places: [Place: AtPlace] = [:]
  }

  private var sources: [WatchedSource: OfSource] = [:]
  private var recorded = 0

  /// Registers a stall of `source` at `place`, declared at `now`. Its work began at `since`.
  mutating func begin(_ source: WatchedSource, _ place: Place, since: WallTime, now: UInt64) -> Member {
    let hasRoom = recorded < Self.allRecordedMax
    let place = hasRoom || sources[source]?.places[place] != nil ? place : .others
    var member = Member(source: source, place: place, began: now, isRecorded: false)
    change(member) { ofSource, atPlace, recorded in
      if ofSource.underWay == 0 { ofSource.since = since }
      ofSource.underWay += 1
      ofSource.count += 1
      atPlace.count += 1
      let isFirst = atPlace.count <= Self.recordedMax
      if isFirst || atPlace.isDue(now), hasRoom {
        member.isRecorded = true
        recorded += 1
        atPlace.record(now)
      } else {
        ofSource.hasCounted = true
        atPlace.owed += 1
        atPlace.count(since: now)
      }
    }
    return member
  }

  /// Moves `member` from the unknown place to `place`.
  mutating func move(_ member: inout Member, to place: Place) {
    guard member.place == .unknown, place != .unknown else { return }
    let former = member
    var isOwed = false
    change(former) { _, atPlace, _ in
      atPlace.count -= 1
      if former.isRecorded {
        atPlace.recorded -= 1
      } else {
        member.began = max(former.began, atPlace.lastTaken)
        atPlace.stopCounting(former)
        isOwed = atPlace.owed > 0
        if isOwed { atPlace.owed -= 1 }
      }
    }
    member.place = place
    let since = member.began
    change(member) { _, atPlace, _ in
      atPlace.count += 1
      if former.isRecorded {
        atPlace.recorded += 1
      } else {
        atPlace.count(since: max(since, atPlace.lastTaken))
        if isOwed { atPlace.owed += 1 }
      }
    }
  }

  /// Decides whether `member`, counted so far, is recorded from `now` on: no other stall at its place is recorded.
  mutating func records(_ member: inout Member, now: UInt64) -> Bool {
    var isDue = false
    change(member) { _, atPlace, recorded in
      isDue = atPlace.recorded == 0 && atPlace.isDue(now) && recorded < Self.allRecordedMax
      guard isDue else { return }
      atPlace.stopCounting(member)
      // Becomes negative if the stall already belongs to a count; the next count is then one lower.
      atPlace.owed -= 1
      recorded += 1
      atPlace.record(now)
    }
    if isDue { member.isRecorded = true }
    return isDue
  }

  /// Returns the count of a recorded stall that continues, if it has changed much since the last note.
  mutating func note(_ member: inout Member, now: UInt64) -> StallCount? {
    guard let ofSource = sources[member.source], ofSource.hasCounted else { return nil }
    let isMore = ofSource.count >= 2 * member.notedCount
    let isDue = ofSource.count != member.notedCount && now &- member.notedTime >= Self.noteInterval
    return isMore || isDue ? take(&member, now) : nil
  }

  /// Removes `member` at `now`. Returns its count if it is recorded and stands for others.
  mutating func end(_ member: inout Member, now: UInt64) -> StallCount? {
    let count = member.isRecorded && sources[member.source]?.hasCounted == true ? take(&member, now) : nil
    change(member) { ofSource, atPlace, recorded in
      ofSource.underWay -= 1
      if member.isRecorded {
        recorded -= 1
        atPlace.recorded -= 1
      } else {
        atPlace.owedTime &+= now.saturatingDifference(max(member.began, atPlace.lastTaken))
        atPlace.stopCounting(member)
      }
    }
    return count
  }

  /// Returns the count of `member`, adding the stalls owed at its place and at unknown places.
  private mutating func take(_ member: inout Member, _ now: UInt64) -> StallCount? {
    guard var ofSource = sources[member.source] else { return nil }
    for place in [member.place, .unknown, .others] {
      guard var atPlace = ofSource.places[place] else { continue }
      member.unrecorded += max(0, atPlace.owed)
      member.unrecordedTime &+= atPlace.take(now)
      ofSource.places[place] = atPlace
    }
    sources[member.source] = ofSource
    (member.notedCount, member.notedTime) = (ofSource.count, now)
    return StallCount(
      since: ofSource.since,
      all: ofSource.count,
      atSamePlace: ofSource.places[member.place]?.count ?? 1,
      unrecorded: member.unrecorded,
      unrecordedTime: Duration(wholeNanoseconds: member.unrecordedTime)
    )
  }

  /// Changes the entries of the source and the place of `member`. Removes a source without stalls under way.
  private mutating func change(_ member: Member, _ body: (inout OfSource, inout AtPlace, inout Int) -> Void) {
    var ofSource = sources.removeValue(forKey: member.source) ?? OfSource()
    var atPlace = ofSource.places[member.place] ?? AtPlace()
    body(&ofSource, &atPlace, &recorded)
    ofSource.places[member.place] = atPlace.isOver ? nil : atPlace
    if ofSource.underWay > 0 { sources[member.source] = ofSource }
  }
}
