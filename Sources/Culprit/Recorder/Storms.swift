import CulpritStallRecord

/// Decides which stalls of sections are recorded and which are only counted.
///
/// While many sections of one name are late at one place, the first eight are recorded, then one a second. This bounds
/// the memory, disk space and reports of a storm. Each counted stall is in the count of exactly one recorded stall.
struct Storms {
  /// Maximum number of simultaneously recorded stalls: of one name at one place, and of all sections.
  static let recordedMax = 8
  static let allRecordedMax = 64
  /// Minimum time between recorded stalls of a storm after the first ``recordedMax``, in nanoseconds.
  static let interval: UInt64 = 1_000_000_000
  /// Maximum number of kept entries without a stall under way: places of one source, and sources.
  private static let keptMax = 256

  /// The innermost frames of the stack of suspended or blocked work.
  struct Place: Hashable {
    private let addresses: [RuntimeAddress]

    /// The place of a stall without a stack.
    static let unknown = Place(addresses: [])
    /// Stands for all new places while the maximum number of stalls is recorded.
    fileprivate static let others = Place(addresses: [RuntimeAddress(.max)])

    private init(addresses: [RuntimeAddress]) { self.addresses = addresses }

    /// Whether work at `other` is suspended in the same function, with the same caller.
    func isSameAwait(as other: Place) -> Bool { addresses.prefix(2) == other.addresses.prefix(2) }

    init(_ stack: Stack) { addresses = stack.frames.prefix(Stack.framesOfPlace).map(\.address) }
  }

  struct Member {
    fileprivate let source: WatchedSource
    fileprivate(set) var place: Place
    /// Time of the declaration or of the last count of its place, whichever is later.
    fileprivate var began: UInt64
    fileprivate(set) var isRecorded: Bool
    /// Number and total time of the stalls in this stall's count; begins at -1 if another count includes this stall.
    fileprivate var unrecorded = 0
    fileprivate var unrecordedTime: UInt64 = 0
  }

  private struct AtPlace {
    var count = 0
    var recorded = 0
    var lastRecorded: UInt64 = 0
    /// Counted stalls that belong to no recorded stall's count yet, and their time.
    var pending = 0
    var pendingTime: UInt64 = 0
    /// Counted stalls under way, and the sum of the times at which their pending times begin.
    var counted = 0
    var sinceSum: UInt64 = 0
    var lastTaken: UInt64 = 0

    var isOver: Bool { recorded == 0 && counted == 0 && pending == 0 && pendingTime == 0 }

    /// Whether another stall can be recorded after the first ``recordedMax``.
    func isDue(_ now: UInt64) -> Bool {
      recorded < Storms.recordedMax && now &- lastRecorded >= Storms.interval
    }

    mutating func record(_ now: UInt64) {
      recorded += 1
      lastRecorded = now
    }

    /// Clears the pending stalls at `now`. Returns their time.
    mutating func take(_ now: UInt64) -> UInt64 {
      // The difference is negative if the clock was set back.
      let time = UInt64(max(0, Int64(bitPattern: pendingTime &+ UInt64(counted) &* now &- sinceSum)))
      (pending, pendingTime, sinceSum, lastTaken) = (0, 0, UInt64(counted) &* now, now)
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

  private struct OfSource {
    var since = WallTime(nanosecondsSince1970: 0)
    var underWay = 0
    var recorded = 0
    var count = 0
    var hasCounted = false
    var places: [Place: AtPlace] = [:]
  }

  private var sources: [WatchedSource: OfSource] = [:]
  private var recorded = 0
  /// Whether stalls have been counted since the last notes.
  private(set) var hasUnnoted = false

  /// Registers a stall declared at `now`. Its work began at `since` and is `age` nanoseconds old.
  mutating func begin(
    _ source: WatchedSource,
    _ place: Place,
    since: WallTime,
    age: UInt64 = 0,
    now: UInt64
  ) -> Member {
    let hasRoom = recorded < Self.allRecordedMax
    let place = hasRoom || sources[source]?.places[place] != nil ? place : .others
    var member = Member(source: source, place: place, began: now, isRecorded: false)
    change(member) { ofSource, atPlace, recorded in
      if ofSource.count == 0 { ofSource.since = since }
      ofSource.underWay += 1
      ofSource.count += 1
      atPlace.count += 1
      // Stalls leave the unknown place once they are sampled.
      let isUnknown = place == .unknown
      let isFirst = (isUnknown ? ofSource.count : atPlace.count) <= Self.recordedMax
      let isDue = atPlace.isDue(now) && (!isUnknown || ofSource.recorded < Self.recordedMax)
      if isFirst || isDue, hasRoom {
        member.isRecorded = true
        recorded += 1
        ofSource.recorded += 1
        atPlace.record(now)
      } else {
        ofSource.hasCounted = true
        atPlace.pending += 1
        atPlace.pendingTime &+= age
        atPlace.count(since: now)
      }
    }
    if !member.isRecorded { hasUnnoted = true }
    return member
  }

  mutating func move(_ member: inout Member, to place: Place) {
    guard member.place == .unknown, place != .unknown else { return }
    let former = member
    var isPending = false
    var lastRecorded: UInt64 = 0
    change(former) { _, atPlace, _ in
      atPlace.count -= 1
      if former.isRecorded {
        atPlace.recorded -= 1
        lastRecorded = atPlace.lastRecorded
      } else {
        member.began = max(former.began, atPlace.lastTaken)
        atPlace.stopCounting(former)
        isPending = atPlace.pending > 0
        if isPending { atPlace.pending -= 1 }
      }
    }
    member.place = place
    let since = member.began
    change(member) { _, atPlace, _ in
      atPlace.count += 1
      if former.isRecorded {
        atPlace.recorded += 1
        atPlace.lastRecorded = max(atPlace.lastRecorded, lastRecorded)
      } else {
        atPlace.count(since: max(since, atPlace.lastTaken))
        if isPending { atPlace.pending += 1 }
      }
    }
  }

  /// Begins to record `member`, counted so far, if no other stall at its place is recorded. Returns whether it does.
  mutating func records(_ member: inout Member, now: UInt64) -> Bool {
    var isDue = false
    change(member) { ofSource, atPlace, recorded in
      isDue = atPlace.recorded == 0 && atPlace.isDue(now) && recorded < Self.allRecordedMax
      guard isDue else { return }
      atPlace.stopCounting(member)
      if atPlace.pending > 0 { atPlace.pending -= 1 } else { member.unrecorded = -1 }
      recorded += 1
      ofSource.recorded += 1
      atPlace.record(now)
    }
    if isDue {
      member.isRecorded = true
      hasUnnoted = true
    }
    return isDue
  }

  mutating func noted() { hasUnnoted = false }

  /// Returns the count of a recorded stall that continues, if the count has grown.
  mutating func note(_ member: inout Member, now: UInt64) -> StallCount? {
    guard let ofSource = sources[member.source] else { return nil }
    let places = [member.place, .unknown, .others]
    return places.contains { (ofSource.places[$0]?.pending ?? 0) > 0 } ? take(&member, now) : nil
  }

  /// Returns the count of `member` if it is recorded and represents other stalls.
  mutating func end(_ member: inout Member, now: UInt64) -> StallCount? {
    let ofSource = sources[member.source]
    var count: StallCount?
    if member.isRecorded, let ofSource, ofSource.hasCounted {
      // The source's last recorded stall also counts the stalls at other places.
      count = take(&member, now, from: ofSource.recorded == 1 ? Array(ofSource.places.keys) : nil)
    }
    change(member) { ofSource, atPlace, recorded in
      ofSource.underWay -= 1
      if member.isRecorded {
        recorded -= 1
        ofSource.recorded -= 1
        atPlace.recorded -= 1
      } else {
        atPlace.pendingTime &+= now.saturatingDifference(max(member.began, atPlace.lastTaken))
        atPlace.stopCounting(member)
      }
    }
    return count
  }

  /// Adds the stalls pending at `places` to the count of `member`. Default: its own place, unknown and others.
  private mutating func take(_ member: inout Member, _ now: UInt64, from places: [Place]? = nil) -> StallCount? {
    guard var ofSource = sources[member.source] else { return nil }
    for place in places ?? [member.place, .unknown, .others] {
      guard var atPlace = ofSource.places[place] else { continue }
      member.unrecorded += atPlace.pending
      member.unrecordedTime &+= atPlace.take(now)
      ofSource.places[place] = atPlace
    }
    sources[member.source] = ofSource
    return StallCount(
      since: ofSource.since,
      all: ofSource.count,
      atSamePlace: ofSource.places[member.place]?.count ?? 1,
      unrecorded: member.unrecorded,
      unrecordedTime: Duration(wholeNanoseconds: member.unrecordedTime)
    )
  }

  /// Changes the entries of `member`. A source without stalls under way keeps only its pending stalls.
  private mutating func change(_ member: Member, _ body: (inout OfSource, inout AtPlace, inout Int) -> Void) {
    var ofSource = sources.removeValue(forKey: member.source) ?? OfSource()
    var atPlace = ofSource.places[member.place] ?? AtPlace()
    body(&ofSource, &atPlace, &recorded)
    ofSource.places[member.place] = atPlace
    if ofSource.places.count > Self.keptMax { ofSource.places = ofSource.places.filter { !$0.value.isOver } }
    if ofSource.underWay == 0 {
      let pending = ofSource.places.values.reduce(0) { $0 + $1.pending }
      guard pending > 0, sources.count < Self.keptMax else { return }
      let pendingTime = ofSource.places.values.reduce(0) { $0 &+ $1.pendingTime }
      ofSource.places = [.others: AtPlace(pending: pending, pendingTime: pendingTime)]
    }
    sources[member.source] = ofSource
  }
}
