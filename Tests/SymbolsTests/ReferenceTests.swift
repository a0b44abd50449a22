import CulpritStallRecord
import SplitMix
import Testing

@testable import CulpritSymbols

@Suite struct ReferenceTests {
  @Test func limitsReferenceChains() throws {
    let list = abbreviations([
      (1, 0x11, true, [(0x11, 0x01), (0x12, 0x06)]), (2, 0x2e, false, [(0x11, 0x01), (0x12, 0x06), (0x47, 0x13)]),
      (3, 0x2e, false, [(0x47, 0x13)]), (4, 0x2e, false, [(0x03, 0x08)]),
    ])
    for length in 1...20 {
      var content = ByteWriter()
      content.u8(1)
      content.number(0x1000, 8)
      content.number(0x100, 4)
      content.u8(2)
      content.number(0x1000, 8)
      content.number(0x10, 4)
      for _ in 0..<length - 1 {
        content.number(UInt64(11 + content.count + 4), 4)
        content.u8(3)
      }
      content.number(UInt64(11 + content.count + 4), 4)
      content.u8(4)
      content.text("written")
      content.u8(0)
      let file = try #require(try madeUpDebugInformation([".debug_info": unit(content.bytes), ".debug_abbrev": list]))
      let found = DebugInformation(file) { _ in nil }.calls(at: 0x1008)
      #expect(found.map { $0.name?.string } == [length < 16 ? "written" : nil], "\(length)")
    }
  }

  @Test func confinesReferencesToUnit() throws {
    for (form, isFound) in [(0x13, false), (0x10, true)] as [(UInt16, Bool)] {
      let list = abbreviations([
        (1, 0x11, true, [(0x11, 0x01), (0x12, 0x06)]), (2, 0x2e, false, [(0x11, 0x01), (0x12, 0x06), (0x47, form)]),
        (3, 0x2e, false, [(0x03, 0x08)]), (4, 0x11, true, []),
      ])
      var content = ByteWriter()
      for code in [1, 2] {
        content.u8(code)
        content.number(0x1000, 8)
        content.number(0x10, 4)
      }
      // The reference skips this unit, and the next unit's header and first entry.
      content.number(UInt64(11 + content.count + 5 + 12), 4)
      content.u8(0)
      let other = unit([4, 3] + Array("elsewhere".utf8) + [0, 0])
      let file = try #require(
        try madeUpDebugInformation([".debug_info": unit(content.bytes) + other, ".debug_abbrev": list])
      )
      let found = DebugInformation(file) { _ in nil }.calls(at: 0x1008)
      #expect(found.map { $0.name?.string } == [isFound ? "elsewhere" : nil])
    }
  }

  @Test func prefersBestName() throws {
    // By attributes: name, linkage name, origin, declaration.
    let forms: [(UInt16, UInt16)] = [(0x03, 0x08), (0x6e, 0x08), (0x31, 0x13), (0x47, 0x13)]
    let base: [(UInt16, UInt16)] = [(0x11, 0x01), (0x12, 0x06)]
    var list: [(code: UInt64, tag: UInt16, hasChildren: Bool, [(UInt16, UInt16)])] = [(1, 0x11, true, base)]
    for set in 0..<16 {
      let own = forms.indices.filter { set & (1 << $0) != 0 }.map { forms[$0] }
      list.append((UInt64(2 + set), 0x2e, false, base + own))
    }
    list += [(20, 0x2e, false, [(0x03, 0x08)]), (21, 0x2e, false, [(0x03, 0x08), (0x2007, 0x08)])]
    // The referenced entries: one with a name, one also with a linkage name.
    for isLinked in [false, true] {
      var content = ByteWriter()
      content.u8(1)
      content.number(0x1000, 8)
      content.number(0x1000, 4)
      let origin = 11 + content.count
      content.u8(isLinked ? 21 : 20)
      content.text("origin")
      if isLinked { content.text("_origin") }
      let declaration = 11 + content.count
      content.u8(20)
      content.text("declaration")
      for set in 0..<16 {
        content.u8(2 + set)
        content.number(0x1000 + UInt64(set) * 16, 8)
        content.number(16, 4)
        if set & 1 != 0 { content.text("own") }
        if set & 2 != 0 { content.text("_own") }
        if set & 4 != 0 { content.number(UInt64(origin), 4) }
        if set & 8 != 0 { content.number(UInt64(declaration), 4) }
      }
      content.u8(0)
      let file = try #require(
        try madeUpDebugInformation([".debug_info": unit(content.bytes), ".debug_abbrev": abbreviations(list)])
      )
      let information = DebugInformation(file) { _ in nil }
      for set in 0..<16 {
        let expected: String?
        switch set {
        case _ where set & 2 != 0: expected = "_own"
        case _ where set & 4 != 0 && isLinked: expected = "_origin"
        case _ where set & 1 != 0: expected = "own"
        case _ where set & 4 != 0: expected = "origin"
        case _ where set & 8 != 0: expected = "declaration"
        default: expected = nil
        }
        for _ in 0..<2 {
          let found = information.calls(at: 0x1003 + UInt64(set) * 16)
          #expect(found.map { $0.name?.string } == [expected], "\(set)")
          #expect(found.first?.isLinkageName == (expected?.hasPrefix("_") ?? false) && found.first?.isInlined == false)
        }
      }
    }
  }
}
