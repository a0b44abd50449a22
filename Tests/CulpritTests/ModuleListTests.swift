import CulpritStallRecord
import TestSupport
import Testing

@testable import Culprit

@Suite(.serialized, .usesSimulatedClock) struct ModuleListTests {
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

  @Test func addsFormerModulesNeededByStack() {
    let (program, gone, unneeded) = (
      module("p", 0x1000, 0x2000), module("g", 0x3000, 0x4000), module("u", 0x5000, 0x6000)
    )
    var list = ModuleList(earlier: [program, gone, unneeded])
    list.load(now: [program])
    #expect(list.cover(stack(0x1100, 0x3100)) { _ in [] } == [gone])
    #expect(list.cover(stack(0x3100)) { _ in [] } == [])
    #expect(list.all == [program, gone])
  }

  @Test func dropsReplacedModules() {
    let (program, former, latter) = (
      module("p", 0x1000, 0x2000), module("f", 0x3000, 0x4000), module("l", 0x3800, 0x4800)
    )
    var list = ModuleList(earlier: [program, former])
    list.load(now: [program, latter])
    #expect(list.all == [program])
    #expect(list.cover(stack(0x3900, 0x3100)) { _ in [latter] } == [])
    #expect(list.all == [program])
  }

  /// A module must be recognized after its header became unreadable or mlock divided its mappings.
  @Test func recognizesModulesWithChangedMappings() {
    let program = module("p", 0x1000, 0x5000)
    var nameless = program
    nameless.buildID = []
    var divided = program
    divided.mappings = [
      Module.Mapping(start: RuntimeAddress(0x1000), end: RuntimeAddress(0x2000), fileOffset: 0),
      Module.Mapping(start: RuntimeAddress(0x2000), end: RuntimeAddress(0x5000), fileOffset: 0x1000),
    ]
    for (before, after) in [(program, nameless), (nameless, program), (program, divided), (divided, nameless)] {
      var list = ModuleList(earlier: [before])
      list.load(now: [after])
      #expect(list.all.map(\.path) == ["p"])
      #expect(list.all.first?.buildID == program.buildID)
      #expect(list.all.first?.contains(RuntimeAddress(0x4fff)) == true)
    }
    var other = program
    other.buildID = [1]
    var list = ModuleList(earlier: [program])
    list.load(now: [other])
    #expect(list.all.isEmpty)
  }

  /// A deleted or renamed file must stay one module; a replaced file must not.
  @Test(arguments: ["/opt/shop (deleted)", "/opt/shop.old"], [true, false])
  func recognizesModulesWithChangedPaths(path: String, hasBuildID: Bool) {
    func program(_ path: String, inode: Int) -> Module {
      var module = module(path, 0x1000, 0x2000)
      module.buildID = hasBuildID ? [1] : []
      module.identity = "fe:00 \(inode)"
      return module
    }
    let (before, after) = (program("/opt/shop", inode: 7), program(path, inode: 7))
    var list = ModuleList(earlier: [before])
    list.load(now: [after])
    #expect(list.all == [after])
    for path in [path, before.path] {
      var other = program(path, inode: 8)
      if hasBuildID { other.buildID = [2] }
      list = ModuleList(earlier: [before])
      list.load(now: [other])
      #expect(list.all.isEmpty)
    }
  }

  @Test func findsModulesLoadedLater() {
    let (program, later) = (module("p", 0x1000, 0x2000), module("l", 0x3000, 0x4000))
    var list = ModuleList(earlier: [program])
    list.load(now: [program])
    #expect(list.cover(stack(0x3100, 0x3200)) { _ in [program, later] } == [later])
    #expect(list.cover(stack(0x9000)) { _ in [] } == [])
  }

  @Test func readsModulesOncePerIntervalAtMost() {
    let reads = Mutex(0)
    let program = module("p", 0x1000, 0x2000)
    var list = ModuleList {
      reads.withLock { $0 += 1 }
      return [program]
    }
    list.load()
    for count in [1, 2] {
      for number: UInt64 in 0..<50 { #expect(list.cover(stack(0xffff_8000_0000_0000 + number)) == []) }
      #expect(reads.withLock { $0 } == count)
      clock.skip(.milliseconds(1100))
    }
  }
}
