import StallRecord
import Testing

@testable import Culprit

struct ModuleListTests {
  private func module(_ path: String, _ start: UInt64, _ end: UInt64) -> Module {
    Module(
      path: path,
      buildID: Array(path.utf8),
      mappings: [Module.Mapping(start: RuntimeAddress(start), end: RuntimeAddress(end), fileOffset: 0)]
    )
  }

  private func stack(_ addresses: UInt64...) -> Stack {
    Stack(frames: addresses.map { .returnAddress(RuntimeAddress($0)) }, end: .outermost)
  }

  @Test func whatWasThereEarlierIsAddedWhereAStackNeedsIt() {
    let (program, gone, unneeded) = (
      module("p", 0x1000, 0x2000), module("g", 0x3000, 0x4000), module("u", 0x5000, 0x6000)
    )
    var list = ModuleList(earlier: [program, gone, unneeded])
    list.load(now: [program])
    #expect(list.cover(stack(0x1100, 0x3100)) { _ in [] } == [gone])
    #expect(list.cover(stack(0x3100)) { _ in [] } == [])
    #expect(list.all == [program, gone])
  }

  /// An address where one module followed another is given to neither.
  @Test func whatWasReplacedIsNotGuessed() {
    let (program, former, latter) = (
      module("p", 0x1000, 0x2000), module("f", 0x3000, 0x4000), module("l", 0x3800, 0x4800)
    )
    var list = ModuleList(earlier: [program, former])
    list.load(now: [program, latter])
    #expect(list.all == [program])
    #expect(list.cover(stack(0x3900, 0x3100)) { _ in [latter] } == [])
    #expect(list.all == [program])
  }

  @Test func whatIsLoadedLaterIsFound() {
    let (program, later) = (module("p", 0x1000, 0x2000), module("l", 0x3000, 0x4000))
    var list = ModuleList(earlier: [program])
    list.load(now: [program])
    #expect(list.cover(stack(0x3100, 0x3200)) { _ in [program, later] } == [later])
    #expect(list.cover(stack(0x9000)) { _ in [] } == [])
  }
}
