import CulpritStallRecord
import SplitMix
import Testing

@testable import Culprit

@Suite struct StormsTests {
  private static let second: UInt64 = 1_000_000_000
  private static let source = WatchedSource(kind: .section, name: "request")
  private static let other = WatchedSource(kind: .section, name: "import")

  private func place(_ number: UInt64) -> Storms.Place {
    Storms.Place(Stack(frames: [.returnAddress(RuntimeAddress(number))], end: .outermost))
  }

  private func wall(_ seconds: UInt64) -> WallTime { WallTime(nanosecondsSince1970: seconds * Self.second) }

  @Test func recordsFirstStallsAndCountsRest() throws {
    var storms = Storms()
    var members = (0..<1000)
      .map { storms.begin(Self.source, place($0 % 100 == 99 ? 2 : 1), since: wall(5 + $0), now: 100 * Self.second) }
    #expect(members[0..<8].allSatisfy { $0.isRecorded })
    let recorded = members.indices.filter { members[$0].isRecorded }
    #expect(recorded == Array(0..<8) + [99, 199, 299, 399, 499, 599, 699, 799])
    var counts: [StallCount] = []
    for index in members.indices {
      if let count = storms.end(&members[index], now: 110 * Self.second) { counts.append(count) }
    }
    #expect(counts.count == 16 && counts.allSatisfy { $0.all == 1000 && $0.since == wall(5) })
    #expect(counts.map(\.unrecorded).reduce(0, +) == 984)
    #expect(counts.map(\.unrecordedTime).reduce(.zero, +) == .seconds(9840))
    #expect(counts[0].atSamePlace == 990 && counts[0].unrecorded == 982 && counts[1].unrecorded == 0)
    #expect(counts[8].atSamePlace == 10 && counts[8].unrecorded == 2)
    var next = storms.begin(Self.source, place(1), since: wall(2000), now: 200 * Self.second)
    #expect(next.isRecorded && storms.end(&next, now: 201 * Self.second) == nil)
  }

  @Test func recordsEachSourceAndPlace() {
    var storms = Storms()
    var members = (0..<8).map { _ in storms.begin(Self.source, place(1), since: wall(0), now: 0) }
    members += (0..<8).map { _ in storms.begin(Self.other, place(1), since: wall(0), now: 0) }
    members += (0..<8).map { storms.begin(Self.source, place(2 + $0), since: wall(0), now: 0) }
    #expect(members.allSatisfy { $0.isRecorded })
    for index in members.indices { #expect(storms.end(&members[index], now: 1) == nil) }
  }

  @Test func recordsOneStallPerSecondOfStorm() throws {
    var storms = Storms()
    var members: [Storms.Member] = []
    var recorded = 0
    var unrecorded = 0
    for tick in 0..<600 {
      let now = Self.second + UInt64(tick) * Self.second / 10
      members.append(storms.begin(Self.source, place(1), since: wall(1), now: now))
      if members.last?.isRecorded == true { recorded += 1 }
      if members.count > 20 { unrecorded += storms.end(&members[0], now: now)?.unrecorded ?? 0 }
      if members.count > 20 { members.removeFirst() }
    }
    #expect((64...70).contains(recorded))
    for index in members.indices { unrecorded += storms.end(&members[index], now: 100 * Self.second)?.unrecorded ?? 0 }
    #expect(recorded + unrecorded <= 600 && recorded + unrecorded >= 580)
  }

  @Test func boundsRecordedStalls() throws {
    var storms = Storms()
    var members = (0..<500).map { storms.begin(Self.source, place($0), since: wall(1), now: Self.second) }
    #expect(members.filter { $0.isRecorded }.count == Storms.allRecordedMax)
    var another = storms.begin(Self.other, place(1), since: wall(1), now: Self.second)
    #expect(!another.isRecorded)
    let count = try #require(storms.end(&members[0], now: 2 * Self.second))
    #expect(count.all == 500 && count.atSamePlace == 1 && count.unrecorded == 436)
    #expect(count.unrecordedTime == .seconds(436))
    another = storms.begin(Self.other, place(1), since: wall(1), now: Self.second)
    #expect(another.isRecorded)
  }

  @Test func movesStallsToPlacesKnownLater() throws {
    var storms = Storms()
    var members = (0..<20).map { _ in storms.begin(Self.source, .unknown, since: wall(1), now: Self.second) }
    #expect(members.filter { $0.isRecorded }.count == 8)
    for index in members.indices { storms.move(&members[index], to: place(index < 15 ? 1 : 2)) }
    let count = try #require(storms.end(&members[0], now: 3 * Self.second))
    #expect(count.all == 20 && count.atSamePlace == 15 && count.unrecorded == 7 && count.unrecordedTime == .seconds(14))
  }

  @Test func recordsNextStallAfterRecordedOnesEnd() throws {
    var storms = Storms()
    var members = (0..<12).map { _ in storms.begin(Self.source, place(1), since: wall(1), now: Self.second) }
    #expect(!storms.records(&members[10], now: 3 * Self.second))
    for index in 0..<8 { _ = storms.end(&members[index], now: 3 * Self.second) }
    #expect(storms.records(&members[10], now: 3 * Self.second) && members[10].isRecorded)
    #expect(!storms.records(&members[11], now: 9 * Self.second))
    #expect(storms.note(&members[10], now: 4 * Self.second) == nil)
    let count = try #require(storms.end(&members[10], now: 5 * Self.second))
    // -1, because an earlier count includes this stall.
    #expect(count.atSamePlace == 12 && count.unrecorded == -1)
  }

  /// Counts must be complete after the last recorded stall, in any order of events.
  @Test(arguments: 0..<200 as Range<UInt64>) func countsEachStallOnce(seed: UInt64) throws {
    var random = SplitMix(seed)
    var storms = Storms()
    var members: [Storms.Member] = []
    var (now, begun, counted) = (Self.second, 0, 0)
    func add(_ count: StallCount?, _ member: Storms.Member) {
      if let count { #expect(count.atSamePlace <= count.all && count.all <= begun, "\(count)") }
      if member.isRecorded { counted += 1 + (count?.unrecorded ?? 0) }
    }
    for _ in 0..<400 {
      now += random.next() % (Self.second / 4)
      let index = members.isEmpty ? 0 : Int(random.next() % UInt64(members.count))
      switch random.next() % 8 {
      case 0...3:
        begun += 1
        members.append(storms.begin(Self.source, begun % 3 == 0 ? place(1) : .unknown, since: wall(1), now: now))
      case 4 where !members.isEmpty: storms.move(&members[index], to: place(random.next() % 3))
      case 5 where !members.isEmpty && !members[index].isRecorded: _ = storms.records(&members[index], now: now)
      case 6 where !members.isEmpty && members[index].isRecorded: _ = storms.note(&members[index], now: now)
      case 7 where !members.isEmpty:
        var member = members.remove(at: index)
        add(storms.end(&member, now: now), member)
      default: break
      }
    }
    while var member = members.popLast() { add(storms.end(&member, now: now), member) }
    // The next recorded stall counts all stalls not counted so far.
    begun += 1
    var last = storms.begin(Self.source, place(9), since: wall(9), now: now + 10 * Self.second)
    add(storms.end(&last, now: now + 11 * Self.second), last)
    #expect(counted == begun)
  }

  @Test func notesGrowingCounts() {
    var storms = Storms()
    var members = (0..<100)
      .map { _ in storms.begin(Self.source, .unknown, since: wall(1), age: Self.second, now: Self.second) }
    #expect(storms.hasUnnoted)
    for index in members.indices { storms.move(&members[index], to: place(1)) }
    let counts = (0..<8).compactMap { storms.note(&members[$0], now: 2 * Self.second) }
    #expect(counts.count == 1 && counts[0].all == 100 && counts[0].atSamePlace == 100 && counts[0].unrecorded == 92)
    // The time before the declaration is part of a stall.
    #expect(counts[0].unrecordedTime == .seconds(184))
    storms.noted()
    #expect(!storms.hasUnnoted)
    members.append(storms.begin(Self.source, place(1), since: wall(1), now: 2 * Self.second))
    #expect(storms.hasUnnoted && storms.note(&members[3], now: 2 * Self.second)?.unrecorded == 1)
  }

  /// Stalls moved from the unknown place must stay within the limit of one place.
  @Test func boundsRecordedStallsMovedFromUnknownPlace() {
    var storms = Storms()
    var members: [Storms.Member] = []
    for _ in 0..<20 {
      let burst = members.count..<members.count + 48
      members += burst.map { _ in storms.begin(Self.source, .unknown, since: wall(1), now: Self.second) }
      for index in burst { storms.move(&members[index], to: place(1)) }
    }
    #expect(members.count { $0.isRecorded } == Storms.recordedMax)
  }

  @Test func countsRoundTripThroughNotes() {
    let count = StallCount(since: wall(7), all: 9, atSamePlace: 8, unrecorded: 3, unrecordedTime: .seconds(4))
    #expect(StallCount(count.note) == count)
    #expect(StallCount(StallNote(.count, text: "1 9 8 -1"))?.unrecorded == -1)
    for text in ["", "1 2 3", "1 2 3 1", "1 2 2 3", "1 2 2 -2", "1 a 2 2", "1 99999999999999999999 1 1"] {
      #expect(StallCount(StallNote(.count, text: text)) == nil, "\(text)")
    }
    #expect(StallCount(StallNote(.context, text: count.note.text)) == nil)
  }
}
