/// A unit of debug information: the attributes of its first entry, and lookups of values.
final class DwarfUnit {
  let header: UnitHeader
  unowned let file: DwarfFile
  let contribution: Contribution
  let skeleton: DwarfUnit?
  let abbreviations: AbbreviationTable

  private(set) var tag: UInt16 = 0
  private(set) var lowPC: UInt64 = 0
  private var lowValue: AttributeValue?
  private var highValue: AttributeValue?
  private var rangesValue: AttributeValue?
  private(set) var statementList: Int?
  private var nameValue: AttributeValue?
  private var directoryValue: AttributeValue?
  private var splitNameValue: AttributeValue?
  private(set) var splitID: UInt64?
  private var textOffsetsBase: Int?
  private var addressBase = 0
  private var rangeListsBase: Int?
  private var gnuRangesBase = 0

  init(_ file: DwarfFile, _ header: UnitHeader, _ contribution: Contribution?, _ skeleton: DwarfUnit?) {
    self.file = file
    self.header = header
    self.contribution = contribution ?? Contribution()
    self.skeleton = skeleton
    let (place, overflow) = header.abbreviations.addingReportingOverflow(self.contribution.abbreviations)
    abbreviations = file.abbreviationTable(at: overflow ? .max : place, header.encoding)
    splitID = header.splitID
    readRoot()
  }

  func cursor(at offset: Int) -> ByteCursor {
    guard offset >= header.firstEntry, offset < header.end else { return Bytes.none.cursor(at: 1) }
    file.info.require(header.end)
    return file.info.bytes.cursor(at: offset, end: header.end)
  }

  /// Calls `body` with each attribute of the entry at `offset`. Returns the entry's tag.
  @discardableResult
  func forEachAttribute(at offset: Int, _ body: (UInt16, AttributeValue) -> Void) -> UInt16? {
    var cursor = cursor(at: offset)
    let abbreviation = abbreviations.abbreviation(cursor.uleb())
    guard abbreviation.isDefined, !cursor.hasFailed else { return nil }
    let base = file.info.bytes.base
    for place in Int(abbreviation.first)..<Int(abbreviation.first) + Int(abbreviation.count) {
      let specification = abbreviations.specifications[place]
      let constant =
        specification.form == Form.implicitConstant ? abbreviations.constants[Int(specification.constant)] : 0
      let value = AttributeValue(specification.form, &cursor, header.encoding, base: base, implicit: constant)
      if cursor.hasFailed { break }
      body(specification.name, value)
    }
    return abbreviation.tag
  }

  private func readRoot() {
    let tag = forEachAttribute(at: header.firstEntry) { name, value in
      switch name {
      case Attribute.lowPC: lowValue = value
      case Attribute.highPC: highValue = value
      case Attribute.ranges: rangesValue = value
      case Attribute.statementList: statementList = Int(exactly: value.number)
      case Attribute.name: nameValue = value
      case Attribute.compilationDirectory: directoryValue = value
      case Attribute.splitName, Attribute.gnuSplitName: splitNameValue = value
      case Attribute.gnuSplitID: splitID = value.number
      case Attribute.stringOffsetsBase: textOffsetsBase = Int(exactly: value.number)
      case Attribute.addressBase, Attribute.gnuAddressBase: addressBase = Int(exactly: value.number) ?? .max
      case Attribute.rangeListsBase: rangeListsBase = Int(exactly: value.number)
      case Attribute.gnuRangesBase: gnuRangesBase = Int(exactly: value.number) ?? .max
      default: break
      }
    }
    self.tag = tag ?? 0
    // Resolved last, because base attributes can follow the values that are relative to a base.
    lowPC = lowValue.flatMap(address) ?? skeleton?.lowPC ?? 0
  }

  var codeRanges: [AddressRange] { ranges(low: lowValue, high: highValue, list: rangesValue) }

  var name: TextReference? { nameValue.flatMap(text) }

  var directory: TextReference? { directoryValue.flatMap(text) ?? skeleton?.directory }

  var splitName: TextReference? { splitNameValue.flatMap(text) }

  // MARK: Values

  func text(_ value: AttributeValue) -> TextReference? {
    guard let number = Int(exactly: value.number) else { return nil }
    switch value.form {
    case Form.string: return file.info.bytes.text(at: number)
    case Form.stringPointer: return Self.text(file.text, number)
    case Form.lineStringPointer: return Self.text(file.lineText, number)
    case Form.stringPointerSupplementary, Form.gnuStringAlternate:
      return file.main.alternate.flatMap { Self.text($0.text, number) }
    case Form.stringIndex, Form.stringIndex1, Form.stringIndex2, Form.stringIndex3, Form.stringIndex4,
      Form.gnuStringIndex:
      file.textOffsets.requireAll()
      // In DWARF 5, the offsets of split units follow the section's header. GNU's older format has no header.
      let defaultBase = file.isSplit && header.encoding.version >= 5 ? (header.encoding.isWide ? 16 : 8) : 0
      guard
        let place = table(
          textOffsetsBase ?? defaultBase + contribution.textOffsets,
          number,
          header.encoding.offsetBytes
        )
      else { return nil }
      var cursor = file.textOffsets.bytes.cursor(at: place)
      let offset = cursor.offset(isWide: header.encoding.isWide)
      return cursor.hasFailed ? nil : Int(exactly: offset).flatMap { Self.text(file.text, $0) }
    default: return nil
    }
  }

  private static func text(_ section: SectionContent, _ offset: Int) -> TextReference? {
    section.requireAll()
    return section.bytes.text(at: offset)
  }

  private func table(_ base: Int, _ index: Int, _ width: Int) -> Int? {
    let (offset, overflow) = index.multipliedReportingOverflow(by: width)
    let (place, overflow2) = offset.addingReportingOverflow(base)
    return overflow || overflow2 || place < 0 ? nil : place
  }

  func address(_ value: AttributeValue) -> UInt64? {
    switch value.form {
    case Form.address: return value.number
    case Form.addressIndex, Form.addressIndex1, Form.addressIndex2, Form.addressIndex3, Form.addressIndex4,
      Form.gnuAddressIndex:
      return indexedAddress(value.number)
    default: return nil
    }
  }

  private func indexedAddress(_ index: UInt64) -> UInt64? {
    if let skeleton { return skeleton.indexedAddress(index) }
    file.addresses.requireAll()
    let width = Int(header.encoding.addressBytes)
    guard let index = Int(exactly: index), let place = table(addressBase, index, width) else { return nil }
    var cursor = file.addresses.bytes.cursor(at: place)
    let address = cursor.address(bytes: width)
    return cursor.hasFailed ? nil : address
  }

  func reference(_ value: AttributeValue) -> (file: DwarfFile, offset: Int)? {
    // A signature is a 64-bit number, not an offset.
    if value.form == Form.referenceSignature { return file.main.typeEntry(value.number) }
    guard let number = Int(exactly: value.number) else { return nil }
    switch value.form {
    case Form.reference1, Form.reference2, Form.reference4, Form.reference8, Form.referenceUnsigned:
      let (offset, overflow) = header.offset.addingReportingOverflow(number)
      return overflow || offset >= header.end ? nil : (file, offset)
    case Form.referenceAddress: return (file.main, number)
    case Form.gnuReferenceAlternate, Form.referenceSupplementary4, Form.referenceSupplementary8:
      return file.main.alternate.map { ($0, number) }
    default: return nil
    }
  }

  func ranges(low: AttributeValue?, high: AttributeValue?, list: AttributeValue?) -> [AddressRange] {
    if let list {
      let ranges = file.spendRangeBudget(0) ? rangeList(list) : []
      return file.spendRangeBudget(ranges.count) ? ranges : []
    }
    guard let low, let start = address(low), let high else { return [] }
    let end = address(high) ?? start &+ high.number
    // Code dropped by the linker keeps its range, at address 0.
    return start != 0 && start < end ? [AddressRange(start: start, end: end)] : []
  }

  private func rangeList(_ value: AttributeValue) -> [AddressRange] {
    guard let number = Int(exactly: value.number) else { return [] }
    if header.encoding.version < 5 {
      // Range lists before DWARF 5 stay in the program's file, not the split file.
      let owner = skeleton ?? self
      let (place, overflow) = number.addingReportingOverflow(skeleton?.gnuRangesBase ?? 0)
      owner.file.ranges.requireAll()
      return overflow ? [] : RangeList.old(owner.file.ranges.bytes, at: place, base: lowPC, header.encoding)
    }
    file.rangeLists.requireAll()
    let lists = file.rangeLists.bytes
    var place = number
    if value.form == Form.rangeListIndex {
      let base = rangeListsBase ?? (header.encoding.isWide ? 20 : 12) + contribution.rangeLists
      guard let entry = table(base, number, header.encoding.offsetBytes) else { return [] }
      var cursor = lists.cursor(at: entry)
      guard let offset = Int(exactly: cursor.offset(isWide: header.encoding.isWide)), !cursor.hasFailed else {
        return []
      }
      let (sum, overflow) = offset.addingReportingOverflow(base)
      if overflow { return [] }
      place = sum
    }
    return RangeList.new(lists, at: place, base: lowPC, header.encoding) { indexedAddress($0) }
  }
}
