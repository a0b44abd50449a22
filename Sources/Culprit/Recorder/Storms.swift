import CulpritStallRecord

/// Decides which stalls of sections are recorded and which are only counted.
///
/// While many sections of one name are late at the same place, the first eight are recorded, then one a second, and the
/// others are only counted, so that a storm costs a bounded amount of memory, disk and reports. Each counted stall is
/// part of the count of exactly one recorded stall.
struct Storms {
  /// The most stalls that are recorded at a time: of one name at one place, and of all sections.
  static let recordedMax = 8
  static let allRecordedMax = 64
  /// The time between the beginnings of two further recorded stalls of a storm.
  static let interval: UInt64 = 1_000_000_000
  /// The time after which a count that has changed is noted again while the stall goes on.
  private static let noteInterval: UInt64 = 10_000_000_000

  /// The place where work is suspended or blocked: the innermost frames of its stack.
  struct Place: Hashable {
    private let addresses: [RuntimeAddress]
    private static let frames = 8

    /// A place that is not known yet.
    static let unknown = Place(addresses: [])
    /// All further places while so many stalls are recorded that none of these can be.
    fileprivate static let others = Place(addresses: [RuntimeAddress(.max)])

    private init(addresses: [RuntimeAddress]) { self.addresses = addresses }

    init(_ stack: Stack) { addresses = stack.frames.prefix(Self.frames).map(\.address) }
  }

  /// A stall under way.
  struct Member {
    fileprivate let source: WatchedSource
    fileprivate(set) var place: Place
    /// When it was declared, on the observer's clock.
    fileprivate var began: UInt64
    fileprivate(set) var isRecorded: Bool
    /// The number of stalls that are part of its count, and their time.
    fileprivate var unrecorded = 0
    fileprivate var unrecordedTime: UInt64 = 0
    /// What was noted last, and when.
    fileprivate var notedCount = 0
    fileprivate var notedTime: UInt64 = 0
  }

  /// The stalls at one place.
  private struct AtPlace {
    var count = 0
    var recorded = 0
    var lastRecorded: UInt64 = 0
    /// Counted stalls that are part of no record's count yet.
    var owed = 0
    var owedTime: UInt64 = 0
    /// Counted stalls under way, and the sum of the times since when their time is owed.
    var counted = 0
    var sinceSum: UInt64 = 0
    /// When what was owed became part of a count last.
    var lastTaken: UInt64 = 0

    /// Whether nothing is left of its stalls.
    var isOver: Bool { recorded == 0 && counted == 0 && owed <= 0 && owedTime == 0 }

    /// Whether another stall can be recorded after the first ones.
    func isDue(_ now: UInt64) -> Bool {
      recorded < Storms.recordedMax && now &- lastRecorded >= Storms.interval
    }

    mutating func record(_ now: UInt64) {
      recorded += 1
      lastRecorded = now
    }

    /// Nothing is owed any more at `now`. Returns the time that was.
    mutating func take(_ now: UInt64) -> UInt64 {
      // Below zero on a clock that was set back.
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

  /// A stall of `source` at `place`, whose work began at `since`, is declared at `now`.
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

  /// The place of `member` is known now.
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

  /// Whether `member`, which goes on and is only counted, is to be recorded from `now` on: nothing else at its place is.
  mutating func records(_ member: inout Member, now: UInt64) -> Bool {
    var isDue = false
    change(member) { _, atPlace, recorded in
      isDue = atPlace.recorded == 0 && atPlace.isDue(now) && recorded < Self.allRecordedMax
      guard isDue else { return }
      atPlace.stopCounting(member)
      // Below zero if it is part of a count already: then one less of the next ones is.
      atPlace.owed -= 1
      recorded += 1
      atPlace.record(now)
    }
    if isDue { member.isRecorded = true }
    return isDue
  }

  /// The count of `member`, which goes on and is recorded, when it has changed much since it was noted.
  mutating func note(_ member: inout Member, now: UInt64) -> StallCount? {
    guard let ofSource = sources[member.source], ofSource.hasCounted else { return nil }
    let isMore = ofSource.count >= 2 * member.notedCount
    let isDue = ofSource.count != member.notedCount && now &- member.notedTime >= Self.noteInterval
    return isMore || isDue ? take(&member, now) : nil
  }

  /// `member` is over at `now`. Returns its count, if it is recorded and stands for others.
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

  /// The count of `member` with what is owed at its place and at places that are not known.
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

  /// Changes what is known of the source and the place of `member`; forgets a source without a stall under way.
  private mutating func change(_ member: Member, _ body: (inout OfSource, inout AtPlace, inout Int) -> Void) {
    var ofSource = sources.removeValue(forKey: member.source) ?? OfSource()
    var atPlace = ofSource.places[member.place] ?? AtPlace()
    body(&ofSource, &atPlace, &recorded)
    ofSource.places[member.place] = atPlace.isOver ? nil : atPlace
    if ofSource.underWay > 0 { sources[member.source] = ofSource }
  }
}
