import SplitMix
import Testing

@testable import CulpritSymbols

@Suite struct ByteCursorTests {
  /// Returns a number; all sizes are equally likely.
  private func anyNumber(_ random: inout SplitMix) -> UInt64 {
    UInt64.random(in: 0...(.max), using: &random) >> UInt64.random(in: 0...63, using: &random)
  }

  @Test(arguments: [false, true]) func roundTripsNumbers(isBigEndian: Bool) {
    let seed: UInt64 = 20_261
    var random = SplitMix(seed)
    var writer = ByteWriter(isBigEndian: isBigEndian)
    var written: [(kind: Int, value: UInt64)] = []
    for _ in 0..<2000 {
      let (kind, value) = (Int.random(in: 0..<8, using: &random), anyNumber(&random))
      switch kind {
      case 0...4: writer.number(value, [1, 2, 3, 4, 8][kind])
      case 5: writer.uleb(value, padding: Int.random(in: 0...3, using: &random))
      case 6: writer.sleb(Int64(bitPattern: value), padding: Int.random(in: 0...3, using: &random))
      default: writer.text("\(value)")
      }
      written.append((kind, kind < 4 ? value & (1 << [8, 16, 24, 32][kind] - 1) : value))
    }
    let memory = MadeUpBytes(writer.bytes, isBigEndian: isBigEndian)
    var cursor = memory.bytes.cursor()
    for (kind, value) in written {
      let found: UInt64
      switch kind {
      case 2: found = cursor.u24()
      case 0...4: found = cursor.number(bytes: [1, 2, 3, 4, 8][kind])
      case 5: found = cursor.uleb()
      case 6: found = UInt64(bitPattern: cursor.sleb())
      default: found = cursor.text().flatMap { UInt64($0.string) } ?? .max
      }
      #expect(found == value, "seed \(seed), kind \(kind)")
    }
    #expect(cursor.isAtEnd && !cursor.hasFailed && cursor.remaining == 0)
    #expect(cursor.u8() == 0 && cursor.hasFailed)
  }

  @Test func readsLEB128Bounds() {
    let powers = (0...9).map { UInt64(1) << UInt64(7 * $0) }
    for value in powers + powers.map({ $0 - 1 }) + [UInt64.max] {
      let memory = MadeUpBytes(ByteWriter.made { $0.uleb(value) })
      var cursor = memory.bytes.cursor()
      #expect(cursor.uleb() == value && cursor.isAtEnd && !cursor.hasFailed)
    }
    let signed: [Int64] = (0..<9).flatMap { shift -> [Int64] in
      let bound: Int64 = 1 << (7 * shift + 6)
      return [bound - 1, bound, -bound, -bound - 1]
    }
    for value in signed + [0, -1, .max, .min] {
      for padding in 0...2 {
        let memory = MadeUpBytes(ByteWriter.made { $0.sleb(value, padding: padding) })
        var cursor = memory.bytes.cursor()
        #expect(cursor.sleb() == value && cursor.isAtEnd && !cursor.hasFailed, "\(value)")
      }
    }
    let long = MadeUpBytes([UInt8](repeating: 0xff, count: 12) + [0x7f, 5])
    var cursor = long.bytes.cursor()
    #expect(cursor.uleb() == .max && cursor.u8() == 5)
    cursor = long.bytes.cursor()
    #expect(cursor.sleb() == -1 && cursor.u8() == 5)
    for count in 1...3 {
      let cut = MadeUpBytes([UInt8](repeating: 0x81, count: count))
      var (first, second) = (cut.bytes.cursor(), cut.bytes.cursor())
      #expect(first.uleb() == 0 && first.hasFailed && second.sleb() == 0 && second.hasFailed)
    }
  }

  @Test func failsPastEnd() {
    let memory = MadeUpBytes([1, 2, 3, 4, 5, 6, 7, 8])
    for width in [1, 2, 4, 8] {
      for start in 0...8 {
        var cursor = memory.bytes.cursor(at: start)
        #expect((cursor.number(bytes: width) != 0) == (start + width <= 8))
        #expect(cursor.hasFailed == (start + width > 8))
        #expect(cursor.remaining == (start + width > 8 ? 0 : 8 - start - width))
      }
    }
    for width in [0, 3, 5, 16] {
      var cursor = memory.bytes.cursor()
      #expect(cursor.number(bytes: width) == 0 && cursor.hasFailed && cursor.isAtEnd && cursor.remaining == 0)
    }
    for count in [-1, 0, 7, 8, 9, .max] {
      var cursor = memory.bytes.cursor()
      cursor.skip(count)
      #expect(cursor.hasFailed == !(0...8).contains(count) && cursor.isAtEnd == !(0..<8).contains(count))
      #expect(cursor.remaining == ((0...8).contains(count) ? 8 - count : 0))
    }
    var beyond = memory.bytes.cursor()
    beyond.skip(UInt64.max)
    #expect(beyond.hasFailed)
    for (start, end, count) in [(0, 3, 3), (3, 3, 0), (0, 9, 8), (8, 8, 0)] {
      let cursor = memory.bytes.cursor(at: start, end: end)
      #expect(cursor.remaining == count && !cursor.hasFailed)
    }
    for (start, end) in [(-1, 3), (4, 3), (9, 9), (9, 20)] {
      #expect(memory.bytes.cursor(at: start, end: end).hasFailed)
    }
  }

  @Test func endsTextsAtNUL() {
    let memory = MadeUpBytes(Array("ab".utf8) + [0, 0] + Array("cd".utf8))
    #expect((-1...7).map { memory.bytes.text(at: $0)?.string } == [nil, "ab", "b", "", "", nil, nil, nil, nil])
    var cursor = memory.bytes.cursor()
    #expect(cursor.text()?.string == "ab" && cursor.text()?.string == "" && !cursor.hasFailed)
    #expect(cursor.text() == nil && cursor.hasFailed && cursor.remaining == 0)
    let other = MadeUpBytes(Array("ab\0abc\0".utf8))
    let (short, long) = (other.bytes.text(at: 0), other.bytes.text(at: 3))
    #expect(short == memory.bytes.text(at: 0) && short != long && short != memory.bytes.text(at: 1))
    #expect(short?.equals("ab") == true && short?.equals("ac") == false && short?.equals("abc") == false)
    #expect(long?.equals("ab") == false)
  }

  /// The highest 4-byte address marks dropped code, like the highest 8-byte address.
  @Test func recognizesDroppedCodeAddress() {
    let memory = MadeUpBytes([UInt8](repeating: 0xff, count: 8))
    var (narrow, wide, number) = (memory.bytes.cursor(), memory.bytes.cursor(), memory.bytes.cursor())
    #expect(narrow.address(bytes: 4) == .max && wide.address(bytes: 8) == .max && wide.isAtEnd)
    #expect(number.number(bytes: 4) == 0xffff_ffff)
    let below = MadeUpBytes([0xfe, 0xff, 0xff, 0xff])
    narrow = below.bytes.cursor()
    #expect(narrow.address(bytes: 4) == 0xffff_fffe)
  }

  @Test func trimsGrownArrays() {
    for count in [0, 1, 2, 7, 100, 1000] {
      var array = Array(0..<count)
      array.reserveCapacity(count * 3 + 40)
      #expect(array.trimmed == array && array.trimmed.capacity < count * 2 + 40)
    }
  }
}

@Suite struct AttributeFormTests {
  private static let encodings = [(2, 4), (2, 8), (3, 8), (4, 4), (5, 8)].flatMap { version, address in
    [false, true].map { UnitEncoding(version: UInt16(version), addressBytes: UInt8(address), isWide: $0) }
  }

  /// Each form of DWARF 5 (7.5.6) with its value and bytes. Forms that are not numbers have the value 0.
  private static func forms(_ encoding: UnitEncoding) -> [(form: UInt16, value: UInt64, bytes: [UInt8])] {
    let wide = encoding.isWide ? 8 : 4
    let address = Int(encoding.addressBytes)
    func number(_ width: Int) -> (UInt64, [UInt8]) {
      let mask: UInt64 = width == 8 ? .max : (1 << UInt64(8 * width)) - 1
      let value: UInt64 = 0x0102_0304_0506_0788 & mask
      return (value, ByteWriter.made { $0.number(value, width) })
    }
    var forms: [(UInt16, UInt64, [UInt8])] = []
    for (width, list) in [
      (1, [0x0b, 0x0c, 0x11, 0x25, 0x29]), (2, [0x05, 0x12, 0x26, 0x2a]), (3, [0x27, 0x2b]),
      (4, [0x06, 0x13, 0x1c, 0x28, 0x2c]), (8, [0x07, 0x14, 0x20, 0x24]), (address, [0x01]),
      (wide, [0x0e, 0x17, 0x1d, 0x1f, 0x1f20, 0x1f21]), (encoding.version == 2 ? address : wide, [0x10]),
    ] as [(Int, [UInt16])] {
      for form in list { forms.append((form, number(width).0, number(width).1)) }
    }
    for form in [0x0f, 0x15, 0x1a, 0x1b, 0x22, 0x23, 0x1f01, 0x1f02] as [UInt16] {
      forms.append((form, 300, [0xac, 0x02]))
    }
    forms.append((0x0d, UInt64(bitPattern: -300), [0xd4, 0x7d]))
    forms.append((0x19, 1, []))
    // A text's value is the offset of its first byte.
    forms.append((0x08, 1, [0x61, 0x62, 0]))
    forms.append((0x0a, 0, [2, 9, 9]))
    forms.append((0x03, 0, [2, 0, 9, 9]))
    forms.append((0x04, 0, [2, 0, 0, 0, 9, 9]))
    forms.append((0x09, 0, [0x82, 0, 9, 9]))
    forms.append((0x18, 0, [2, 9, 9]))
    forms.append((0x1e, 0, [UInt8](repeating: 9, count: 16)))
    return forms
  }

  @Test func readsAndSkipsEveryForm() {
    for encoding in Self.encodings {
      for (form, value, content) in Self.forms(encoding) {
        for isIndirect in [false, true] {
          let number = ByteWriter.made { $0.uleb(UInt64(form)) }
          let before = [0x55] + (isIndirect ? number : [])
          let memory = MadeUpBytes(before + content + [0xee])
          let written = isIndirect ? 0x16 : form
          var cursor = memory.bytes.cursor(at: 1)
          let found = AttributeValue(written, &cursor, encoding, base: memory.bytes.base, implicit: 7)
          let place = form == 0x08 ? UInt64(before.count) : value
          #expect(found.number == place && found.form == form && cursor.u8() == 0xee, "\(form) \(encoding)")
          cursor = memory.bytes.cursor(at: 1)
          AttributeValue.skip(written, &cursor, encoding)
          #expect(cursor.u8() == 0xee && !cursor.hasFailed, "\(form) \(encoding)")
          let fixed = AttributeValue.fixedSize(written, encoding)
          #expect(fixed == nil || fixed == content.count, "\(form) \(encoding)")
        }
      }
    }
  }

  @Test func stopsAtUnknownForm() {
    let encoding = Self.encodings[0]
    let memory = MadeUpBytes([0x16, 0x0b, 1, 2])
    for (form, start) in [(0x02, 0), (0x7f, 0), (0x16, 0)] as [(UInt16, Int)] {
      var (read, skipped) = (memory.bytes.cursor(at: start), memory.bytes.cursor(at: start))
      let value = AttributeValue(form, &read, encoding, base: memory.bytes.base, implicit: 3)
      AttributeValue.skip(form, &skipped, encoding)
      #expect(value.number == 0 && read.hasFailed && skipped.hasFailed)
    }
    let implicit = MadeUpBytes([0x21, 5])
    var (read, skipped) = (implicit.bytes.cursor(), implicit.bytes.cursor())
    _ = AttributeValue(0x16, &read, encoding, base: implicit.bytes.base, implicit: 3)
    AttributeValue.skip(0x16, &skipped, encoding)
    #expect(read.hasFailed && skipped.hasFailed)
    read = implicit.bytes.cursor()
    #expect(
      AttributeValue(0x21, &read, encoding, base: implicit.bytes.base, implicit: -3).number == UInt64(bitPattern: -3)
    )
    #expect(read.remaining == 2)
  }

  @Test func roundTripsAbbreviations() {
    let seed: UInt64 = 20_261
    var random = SplitMix(seed)
    for encoding in Self.encodings {
      let forms = Self.forms(encoding)
      // Codes with gaps, high codes, and duplicates, of which the first is used.
      let codes: [UInt64] = Array(1...40) + [50, 45, 1 << 40, 5000, 41] + [45, 3]
      var expected: [UInt64: (tag: UInt16, hasChildren: Bool, names: [UInt16], bytes: Int?)] = [:]
      var list: [(code: UInt64, tag: UInt16, hasChildren: Bool, [(UInt16, UInt16)])] = []
      for code in codes {
        let tag = [0x2e, 0x1d, 0x34, 0x11, 0x4109].randomElement(using: &random) ?? 0x2e as UInt16
        let attributes = (0..<Int.random(in: 0...6, using: &random))
          .compactMap { _ in forms.randomElement(using: &random) }
          .map { (name: [0x01, 0x03, 0x11, 0x2116].randomElement(using: &random) ?? 0x03 as UInt16, form: $0) }
        let hasChildren = Bool.random(using: &random)
        list.append((code, tag, hasChildren, attributes.map { ($0.name, $0.form.form) }))
        let sizes = attributes.map {
          AttributeValue.fixedSize($0.form.form, encoding) == nil ? nil : $0.form.bytes.count
        }
        let bytes = sizes.contains(nil) ? nil : sizes.reduce(0) { $0 + ($1 ?? 0) }
        if expected[code] == nil { expected[code] = (tag, hasChildren, attributes.map(\.name), bytes) }
      }
      let content = abbreviations(list)
      let memory = MadeUpBytes([9, 9, 9] + content + [7])
      let table = AbbreviationTable(memory.bytes, at: 3, encoding)
      #expect(table.byteCount == content.count)
      for code in codes {
        let found = table.abbreviation(code)
        let (tag, hasChildren, names, bytes) = expected[code] ?? (0, false, [], nil)
        #expect(found.isDefined && found.tag == tag && found.hasChildren == hasChildren, "seed \(seed), \(code)")
        let first = Int(found.first)
        #expect(table.specifications[first..<first + Int(found.count)].map(\.name) == names, "seed \(seed), \(code)")
        #expect(found.size == bytes.map { Int32($0) } ?? -1, "seed \(seed), \(code)")
        #expect(found.hasSibling == (names.first == 0x01) && found.isCode == (tag == 0x2e || tag == 0x1d))
      }
      for code in [0, 42, 44, 4999, 5001, .max] as [UInt64] { #expect(!table.abbreviation(code).isDefined) }
    }
  }

  @Test func keepsManyAbbreviationsAndConstants() {
    let encoding = Self.encodings[9]
    let count: UInt64 = 4200
    let memory = MadeUpBytes(
      ByteWriter.made { writer in
        for code in 1...count {
          writer.uleb(code)
          writer.append([0x34, 0, 0x3b, 0x21])
          writer.sleb(2 * Int64(code) - 5000)
          writer.append([0, 0])
        }
        // The last abbreviation is truncated.
        writer.uleb(count + 1)
        writer.append([0x34, 0, 0x3b])
      }
    )
    let table = AbbreviationTable(memory.bytes, at: 0, encoding)
    for code in 1...count {
      let found = table.abbreviation(code)
      #expect(found.isDefined && found.size == 0 && found.count == 1)
      let constant = Int(table.specifications[Int(found.first)].constant)
      #expect(table.constants[constant] == 2 * Int64(code) - 5000)
    }
    #expect(!table.abbreviation(count + 1).isDefined && !table.abbreviation(0).isDefined)
    #expect(table.memory > 4200 * 8)
  }
}
