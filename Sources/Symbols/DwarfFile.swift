import CulpritStallRecord

/// The sections of debug information in one file: the program's own, a separate, or a split file.
final class DwarfFile {
  let image: ElfImage
  let isSplit: Bool
  /// The file whose `.debug_types` this object represents.
  private unowned let owner: DwarfFile?
  /// The file with shared entries that this file references (dwz).
  var alternate: DwarfFile?
  /// Finds a type unit of a package by its signature; `nil` outside packages.
  var packagedType: ((UInt64) -> (offset: Int, contribution: Contribution)?)?

  let info: SectionContent
  let abbreviations: SectionContent
  private(set) lazy var line = content(".debug_line")
  private(set) lazy var text = content(".debug_str")
  private(set) lazy var lineText = content(".debug_line_str")
  private(set) lazy var textOffsets = content(".debug_str_offsets")
  private(set) lazy var addresses = content(".debug_addr")
  private(set) lazy var ranges = content(".debug_ranges")
  private(set) lazy var rangeLists = content(".debug_rnglists")
  private(set) lazy var addressRanges = content(".debug_aranges")

  private(set) var types: DwarfFile?
  private lazy var typeEntries = readTypeEntries()

  private var headers: [UnitHeader] = []
  private var scanned = 0
  private var roots: [Int: DwarfUnit] = [:]
  private var abbreviationTables: [Int: AbbreviationTable] = [:]
  private var abbreviationBytes = 0
  private var rangeBudget = 1 << 16

  /// - Throws: ``ElfError`` if the information is damaged or has an unsupported compression.
  init?(_ image: ElfImage, isSplit: Bool = false) throws(ElfError) {
    let suffix = isSplit ? ".dwo" : ""
    guard let info = try image.content(of: ".debug_info" + suffix),
      let abbreviations = try image.content(of: ".debug_abbrev" + suffix)
    else { return nil }
    self.image = image
    self.isSplit = isSplit
    self.info = info
    self.abbreviations = abbreviations
    owner = nil
    let types = content(".debug_types")
    if types.bytes.count > 0 { self.types = DwarfFile(types: types, of: self) }
  }

  private init(types: SectionContent, of owner: DwarfFile) {
    image = owner.image
    isSplit = owner.isSplit
    info = types
    abbreviations = owner.abbreviations
    self.owner = owner
  }

  var main: DwarfFile { owner ?? self }

  var byteCount: Int {
    headers.capacity * MemoryLayout<UnitHeader>.stride + roots.count * 400
      + abbreviationTables.values.reduce(0) { $0 + $1.memory } + (types?.byteCount ?? 0)
  }

  /// Drops cached units, which must not be used afterwards.
  func forgetUnits() {
    roots = [:]
    abbreviationTables = [:]
    abbreviationBytes = 0
    types?.forgetUnits()
  }

  private func content(_ name: String) -> SectionContent {
    let found = try? image.content(of: isSplit && name != ".debug_addr" ? name + ".dwo" : name)
    return found ?? .empty
  }

  func header(containing offset: Int) -> UnitHeader? {
    guard offset >= 0, offset < info.bytes.count else { return nil }
    while scanned <= offset, let next = readHeader(at: scanned) {
      headers.append(next)
      scanned = next.end
    }
    let place = headers.partitioningIndex { $0.offset > offset }
    guard place > 0, offset < headers[place - 1].end else { return nil }
    return headers[place - 1]
  }

  /// Returns the header of the unit that begins at `offset`. Unlike ``header(containing:)``, reads no earlier headers.
  func header(at offset: Int) -> UnitHeader? { offset >= 0 ? readHeader(at: offset) : nil }

  var allHeaders: [UnitHeader] {
    while let next = readHeader(at: scanned) {
      headers.append(next)
      scanned = next.end
    }
    return headers
  }

  private func readHeader(at offset: Int) -> UnitHeader? {
    guard offset < info.bytes.count else { return nil }
    info.require(offset + UnitHeader.bytesMax)
    return UnitHeader(info.bytes, at: offset, isType: owner != nil)
  }

  /// Returns the unit with `header`. For a unit in a package, `contribution` contains its offsets in other sections.
  func unit(_ header: UnitHeader, _ contribution: Contribution? = nil, skeleton: DwarfUnit? = nil) -> DwarfUnit {
    if let known = roots[header.offset] { return known }
    let unit = DwarfUnit(self, header, contribution, skeleton)
    roots[header.offset] = unit
    return unit
  }

  func abbreviationTable(at offset: Int, _ encoding: UnitEncoding) -> AbbreviationTable {
    let key =
      offset << 6 ^ Int(encoding.addressBytes) << 2 ^ (encoding.isWide ? 2 : 0) ^ (encoding.version == 2 ? 1 : 0)
    if let known = abbreviationTables[key] { return known }
    abbreviations.requireAll()
    // Real tables do not overlap, so they are read once for each encoding. Malicious tables would be read repeatedly.
    let isExhausted = abbreviationBytes > abbreviations.bytes.count * 4
    let read = AbbreviationTable(isExhausted ? .none : abbreviations.bytes, at: offset, encoding)
    abbreviationBytes += read.byteCount
    abbreviationTables[key] = read
    return read
  }

  func typeEntry(_ signature: UInt64) -> (file: DwarfFile, offset: Int)? {
    if let packagedType {
      guard let (offset, contribution) = packagedType(signature) else { return nil }
      let file = types ?? self
      guard let header = file.header(at: offset), let type = header.type, type.signature == signature else {
        return nil
      }
      // Registers the unit by its offset.
      _ = file.unit(header, contribution)
      return (file, type.entry)
    }
    if let offset = typeEntries[signature] { return (self, offset) }
    guard let types, let offset = types.typeEntries[signature] else { return nil }
    return (types, offset)
  }

  private func readTypeEntries() -> [UInt64: Int] {
    Dictionary(allHeaders.compactMap { $0.type.map { ($0.signature, $0.entry) } }) { first, _ in first }
  }

  /// Resets the budget of code ranges read from lists. Real lists are read once; in malicious files, thousands of
  /// entries reference one long list.
  func renewRangeBudget() { rangeBudget = 1 << 16 + ranges.bytes.count + rangeLists.bytes.count }

  /// Returns `false` for an exhausted budget.
  func spendRangeBudget(_ count: Int) -> Bool {
    rangeBudget -= count
    return rangeBudget >= 0
  }
}

struct Contribution {
  var abbreviations = 0
  var line = 0
  var textOffsets = 0
  var rangeLists = 0
}

/// The header of a unit (DWARF 5, 7.5.1).
struct UnitHeader {
  static let bytesMax = 64

  var offset: Int
  var end: Int
  var firstEntry: Int
  var encoding: UnitEncoding
  var abbreviations: Int
  /// From DWARF 5 on, the number shared by a skeleton and its split unit.
  var splitID: UInt64?
  var type: (signature: UInt64, entry: Int)?

  /// Reads the header at `offset`; `nil` if it is invalid. `isType` is whether the section is `.debug_types`, which
  /// contains only type units.
  init?(_ section: Bytes, at offset: Int, isType: Bool = false) {
    var cursor = section.cursor(at: offset)
    var length = UInt64(cursor.u32())
    let isWide = length == 0xffff_ffff
    if isWide { length = cursor.u64() } else if length >= 0xffff_fff0 { return nil }
    guard let bytes = Int(exactly: length), !cursor.hasFailed, bytes >= 3, bytes <= cursor.remaining else { return nil }
    let content = section.count - cursor.remaining
    let version = cursor.u16()
    self.offset = offset
    end = content + bytes
    encoding = UnitEncoding(version: version, addressBytes: 0, isWide: isWide)
    var typePlace: (signature: UInt64, distance: UInt64)?
    if version >= 5 {
      let kind = cursor.u8()
      encoding.addressBytes = cursor.u8()
      abbreviations = Int(exactly: cursor.offset(isWide: isWide)) ?? .max
      switch kind {
      case 4, 5: splitID = cursor.u64()
      case 2, 6: typePlace = (cursor.u64(), cursor.offset(isWide: isWide))
      default: break
      }
    } else {
      abbreviations = Int(exactly: cursor.offset(isWide: isWide)) ?? .max
      encoding.addressBytes = cursor.u8()
      if isType { typePlace = (cursor.u64(), cursor.offset(isWide: isWide)) }
    }
    if let typePlace, let distance = Int(exactly: typePlace.distance), distance < end - offset {
      type = (typePlace.signature, offset + distance)
    }
    firstEntry = section.count - cursor.remaining
    guard !cursor.hasFailed, firstEntry <= end else { return nil }
    // For an unknown version, only the length is valid. No entry is read.
    if !(2...5).contains(version) || ![4, 8].contains(encoding.addressBytes) { firstEntry = end }
  }
}
