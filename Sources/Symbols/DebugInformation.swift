import CulpritStallRecord

package struct SourceCall {
  package var name: TextReference?
  package var isLinkageName = false
  package var isInlined = false
  package var file: String?
  package var line: UInt32 = 0
  package var column: UInt16 = 0
  package var discriminator: UInt32 = 0
  /// The start of the function's hot part, if the code is in another part.
  package var entry: UInt64?
}

final class DebugInformation {
  private let main: DwarfFile
  private let findSplit: (DwarfUnit) -> DwarfUnit?
  private lazy var quickIndex = UnitIndex.fromAddressRanges(main)
  private lazy var fullIndex = UnitIndex.fromUnits(main, except: quickIndex.units)
  private var code: [Int: UnitCode] = [:]
  private var lineTables: [Int: LineTable] = [:]
  private var names: [NamePlace: FunctionName] = [:]
  private var last: UnitCode?

  private struct NamePlace: Hashable {
    var file: ObjectIdentifier
    var offset: Int
  }

  private final class UnitCode {
    /// The unit in the program's file.
    let unit: DwarfUnit
    /// The unit with the entries: ``unit`` or its split unit.
    let entries: DwarfUnit
    let functions: FunctionTable
    let lines: LineTable?
    let ranges: [AddressRange]
    var names: [FunctionName?]
    private(set) lazy var compilation = readCompilation()

    init(_ unit: DwarfUnit, _ entries: DwarfUnit, _ lines: LineTable?) {
      self.unit = unit
      self.entries = entries
      self.lines = lines
      ranges = unit.codeRanges
      functions = FunctionTable(entries)
      names = [FunctionName?](repeating: nil, count: functions.count)
    }

    private func readCompilation() -> CompilationUnit {
      var compilation = CompilationUnit(
        directory: unit.directory?.string ?? entries.directory?.string ?? "",
        file: unit.name?.string ?? entries.name?.string ?? ""
      )
      compilation.swiftModule = swiftModule(of: compilation.path)
      return compilation
    }

    /// Returns the Swift module that contains the source file at `path`. The entry of an imported module has the path
    /// of its description. The entry of the unit's own module has the file's directory.
    private func swiftModule(of path: String) -> String? {
      for entry in functions.modules {
        var name: String?
        var place: String?
        entries.forEachAttribute(at: entries.header.offset + Int(entry)) { attribute, value in
          switch attribute {
          case Attribute.name: name = entries.text(value)?.string
          case Attribute.llvmIncludePath: place = entries.text(value)?.string
          default: break
          }
        }
        if let name, let place, place.hasPrefix("/"), path.hasPrefix(place + "/") { return name }
      }
      return nil
    }

    var byteCount: Int { functions.byteCount + names.capacity * MemoryLayout<FunctionName?>.stride + 200 }
  }

  private struct FunctionName {
    var text: TextReference
    var isLinkageName: Bool
  }

  init(_ main: DwarfFile, findSplit: @escaping (DwarfUnit) -> DwarfUnit?) {
    self.main = main
    self.findSplit = findSplit
  }

  var byteCount: Int {
    main.byteCount + names.capacity * 64 + code.values.reduce(0) { $0 + $1.byteCount }
      + lineTables.values.reduce(0) { $0 + $1.byteCount }
  }

  func forgetUnits() {
    last = nil
    code = [:]
    lineTables = [:]
    names = [:]
    main.forgetUnits()
    main.alternate?.forgetUnits()
  }

  func calls(at address: UInt64) -> [SourceCall] {
    guard let code = unitCode(at: address) else { return [] }
    let lines = code.lines
    let chain = code.functions.chain(at: address)
    var place = SourceCall()
    if let (row, discriminator) = lines?.row(at: address) {
      place.file = lines?.path(row.file)
      place.line = row.line
      place.column = row.column
      place.discriminator = discriminator
    } else if chain.isEmpty {
      return []
    }
    guard !chain.isEmpty else { return [place] }
    var calls: [SourceCall] = []
    calls.reserveCapacity(chain.count)
    for number in chain.reversed() {
      let scope = code.functions[number]
      if let found = name(of: number, scope, in: code) {
        place.name = found.text
        place.isLinkageName = found.isLinkageName
      }
      place.isInlined = !scope.isFunction
      if scope.isFunction, !scope.bounds.contains(address) { place.entry = scope.bounds.start }
      calls.append(place)
      place = SourceCall()
      place.file = scope.callFile == 0 && scope.callLine == 0 ? nil : lines?.path(scope.callFile)
      place.line = scope.callLine
      place.column = scope.callColumn
    }
    return calls
  }

  /// The declaration of call `number` of ``calls(at:)``; `nil` without a record.
  func declaration(ofCall number: Int, at address: UInt64) -> SourceCall? {
    guard let code = unitCode(at: address), let lines = code.lines, code.entries.file === main else { return nil }
    let chain = Array(code.functions.chain(at: address).reversed())
    guard chain.indices.contains(number) else { return nil }
    let entries = code.entries
    var offset = entries.header.offset + Int(code.functions[chain[number]].entry)
    for _ in 0..<Self.chainMax {
      var (file, line): (UInt64, UInt64) = (0, 0)
      var next: Int?
      entries.forEachAttribute(at: offset) { name, value in
        switch name {
        case Attribute.declarationFile: file = value.number
        case Attribute.declarationLine: line = value.number
        case Attribute.abstractOrigin, Attribute.specification:
          // File numbers are valid only within a unit.
          guard let found = entries.reference(value), found.file === main,
            (entries.header.offset..<entries.header.end).contains(found.offset)
          else { return }
          next = found.offset
        default: break
        }
      }
      if line > 0 {
        var place = SourceCall()
        place.file = lines.path(UInt32(clamping: file))
        place.line = UInt32(clamping: line)
        return place
      }
      guard let next else { return nil }
      offset = next
    }
    return nil
  }

  func firstColumn(from address: UInt64, before end: UInt64) -> UInt64? {
    unitCode(at: address)?.lines?.firstColumn(from: address, before: end)
  }

  func compilation(at address: UInt64) -> CompilationUnit? { unitCode(at: address)?.compilation }

  func compilations(beside address: UInt64) -> [CompilationUnit] {
    (quickIndex.index.units(beside: address) + fullIndex.units(beside: address))
      .compactMap { unitCode($0)?.compilation }
  }

  private func unitCode(at address: UInt64) -> UnitCode? {
    // For many ranges, the index is faster than a search.
    if let last, last.ranges.count <= 8, last.ranges.contains(where: { $0.contains(address) }) { return last }
    guard let found = unit(at: address) else { return nil }
    last = found
    return found
  }

  private func unit(at address: UInt64) -> UnitCode? {
    if let offset = quickIndex.index.unit(at: address), let found = unitCode(offset) { return found }
    return fullIndex.unit(at: address).flatMap(unitCode)
  }

  private func unitCode(_ offset: Int) -> UnitCode? {
    if let known = code[offset] { return known }
    guard let header = main.header(at: offset) else { return nil }
    let unit = main.unit(header)
    let lines = unit.statementList.flatMap { lineTable($0, unit) }
    let made = UnitCode(unit, unit.splitName == nil ? unit : findSplit(unit) ?? unit, lines)
    code[offset] = made
    return made
  }

  private func lineTable(_ offset: Int, _ unit: DwarfUnit) -> LineTable? {
    if let known = lineTables[offset] { return known }
    let table = LineTable(
      main,
      at: offset,
      directory: unit.directory,
      addressBytes: unit.header.encoding.addressBytes
    )
    lineTables[offset] = table
    return table
  }

  // MARK: Names

  /// The maximum length of a chain of references to a name, from an inlined call to its function, or from a definition
  /// to its declaration. Longer chains are loops.
  private static let chainMax = 16

  private func name(of number: Int, _ scope: FunctionTable.Scope, in code: UnitCode) -> FunctionName? {
    if let known = code.names[number] { return known }
    let offset = code.entries.header.offset + Int(scope.entry)
    let found = readName(offset, code.entries, 0)
    code.names[number] = found
    return found
  }

  private func readName(_ offset: Int, _ unit: DwarfUnit, _ depth: Int) -> FunctionName? {
    guard depth < Self.chainMax else { return nil }
    var plain: TextReference?
    var linkage: TextReference?
    var next: (file: DwarfFile, offset: Int)?
    unit.forEachAttribute(at: offset) { name, value in
      switch name {
      case Attribute.name: plain = unit.text(value)
      case Attribute.linkageName, Attribute.mipsLinkageName: linkage = unit.text(value)
      case Attribute.abstractOrigin: next = unit.reference(value)
      case Attribute.specification, Attribute.signature: next = next ?? unit.reference(value)
      default: break
      }
    }
    if let linkage { return FunctionName(text: linkage, isLinkageName: true) }
    // A declaration can have a linkage name if its definition has none.
    if let next, let found = referredName(next.offset, next.file, unit, depth + 1), found.isLinkageName || plain == nil
    {
      return found
    }
    return plain.map { FunctionName(text: $0, isLinkageName: false) }
  }

  /// Returns the name of the entry at `offset` of `file`, referenced by an entry of `unit`.
  private func referredName(_ offset: Int, _ file: DwarfFile, _ unit: DwarfUnit, _ depth: Int) -> FunctionName? {
    let place = NamePlace(file: ObjectIdentifier(file), offset: offset)
    if let known = names[place] { return known }
    let found: FunctionName?
    if file === unit.file, offset >= unit.header.offset, offset < unit.header.end {
      found = readName(offset, unit, depth)
    } else {
      found = file.header(containing: offset).flatMap { readName(offset, file.unit($0), depth) }
    }
    if let found { names[place] = found }
    return found
  }
}
