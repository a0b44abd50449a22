import CCulpritLinux
import CulpritStallRecord
import Glibc

package struct SymbolMatch {
  package var name: TextReference
  package var range: AddressRange
  package var file: TextReference?
  /// A public name, if `name` is internal to the C library: `read` for `__GI___libc_read`.
  package var publicName: TextReference?
}

/// A file with code, and all sources of names for its addresses: symbols, unwind table and debug information. They are
/// read on first use.
final class SymbolFile {
  let image: ElfImage
  private let files: DebugFiles
  private(set) lazy var separate = findSeparate()
  private lazy var tables = loadTables()
  private lazy var starts = FunctionStarts(image)
  private(set) lazy var debug = loadDebug()
  private lazy var pltStubs = PLTStubs(image)
  private(set) lazy var merged = loadMerged()
  let names = NameCache()
  private(set) var problems: [String] = []
  private var checkedAt: UInt64 = 0

  init(_ image: ElfImage, search: DebugSearch) {
    self.image = image
    files = DebugFiles(search: search)
  }

  /// Whether no file is truncated, as checked at most a few milliseconds ago.
  func isIntact() -> Bool {
    let now = coarseNanoseconds()
    guard now &- checkedAt > 4_000_000 else { return true }
    checkedAt = now
    return (image.file?.isIntact ?? true) && (separate?.file?.isIntact ?? true)
      && (alternate?.image.file?.isIntact ?? true)
  }

  /// The approximate memory size of data read from the file, in bytes. Excludes mapped pages, which the kernel can
  /// reclaim.
  var byteCount: Int {
    image.inflatedBytes + (separate?.inflatedBytes ?? 0) + (alternate?.image.inflatedBytes ?? 0) + names.byteCount
      + (areTablesLoaded ? tables.reduce(0) { $0 + $1.byteCount } : 0) + (isDebugLoaded ? debug?.byteCount ?? 0 : 0)
  }

  /// Drops units and names, which can be read again quickly. Keeps the tables that locate them.
  func forgetUnits() {
    if isDebugLoaded { debug?.forgetUnits() }
    names.forget()
  }

  private var areTablesLoaded = false
  private var isDebugLoaded = false

  var hasSymbols: Bool { tables.contains { $0.count > 0 } }

  /// Returns the symbol that covers `address`. Of several names for equal code, prefers `preferred`.
  func symbol(at address: FileAddress, preferring preferred: TextReference? = nil) -> SymbolMatch? {
    var best: SymbolMatch?
    for table in tables {
      guard let symbol = table.symbol(at: address, preferring: preferred) else { continue }
      if let best, best.range.start >= symbol.range.start { continue }
      best = symbol
    }
    return best
  }

  func otherNames(of symbol: SymbolMatch) -> [TextReference] {
    tables.flatMap { $0.otherNames(of: symbol) }
  }

  func calls(at address: FileAddress) -> [SourceCall] { debug?.calls(at: address.value) ?? [] }

  func origin(at address: FileAddress) -> CodeOrigin {
    guard let debug else { return .unknown }
    if let unit = debug.compilation(at: address.value) { return .unit(unit) }
    return isDescribed ? .undescribed : .unknown
  }

  /// Returns the origin of a merged function of `swiftModule` that begins at `start` and lacks debug information. The
  /// functions of a unit are adjacent.
  func originOfMerged(at start: FileAddress, swiftModule: String) -> CodeOrigin? {
    debug?.compilations(beside: start.value).first { $0.swiftModule == swiftModule }.map { .unit($0) }
  }

  /// Whether debug information covers the program's `main`, and so its own code.
  private lazy var isDescribed =
    tables.lazy.compactMap(\.main).first.map { debug?.compilation(at: $0) != nil } ?? false

  func functionStart(at address: FileAddress) -> FileAddress? { starts.start(at: address) }

  /// Returns the name of the PLT stub at `address`: `poll@plt`, or `PLT stub` without a known target; `nil` if there is
  /// no stub.
  func pltStub(at address: FileAddress) -> String? {
    switch pltStubs.target(at: address.value) {
    case .function(let name): name.string + "@plt"
    case .resolver(let start):
      symbol(at: FileAddress(start)).map { ($0.publicName ?? $0.name).string + "@plt" } ?? "PLT stub"
    case .unknown: "PLT stub"
    case nil: nil
    }
  }

  private func loadMerged() -> MergedFunctions? {
    guard let table = tables.first else { return nil }
    return MergedFunctions(image, table, hasDebugInformation: debug != nil) { [weak self] start in
      self?.calls(at: FileAddress(start)).contains { $0.name != nil } ?? true
    }
  }

  private func findSeparate() -> ElfImage? {
    guard image.index(of: ".debug_info") == nil, image.index(of: ".zdebug_info") == nil else { return nil }
    switch files.separate(for: image) {
    case .found(let found): return found
    case .refused(let why): problems.append(why)
    case .none: break
    }
    return nil
  }

  private func loadTables() -> [SymbolTable] {
    areTablesLoaded = true
    if image.sections.contains(where: { $0.type == ElfFormat.symbolTable }) { return [SymbolTable(image)] }
    if let separate, separate.sections.contains(where: { $0.type == ElfFormat.symbolTable }) {
      return [SymbolTable(separate, code: image)]
    }
    // A file stripped for distribution keeps its exported symbols. A compressed embedded file has its other symbols.
    var tables = [SymbolTable(image)]
    do {
      if let packed = try image.content(of: ".gnu_debugdata") {
        let content = try XZ.content(of: packed.bytes)
        let inner = try ElfImage(bytes: content.bytes, path: ".gnu_debugdata of \(image.path)", keeper: content)
        tables.append(SymbolTable(inner, code: image))
      }
    } catch { problems.append(error.text) }
    return tables
  }

  private var alternate: DwarfFile?

  private func loadDebug() -> DebugInformation? {
    isDebugLoaded = true
    let holder = separate ?? image
    do {
      guard let dwarf = try DwarfFile(holder) else { return nil }
      switch files.alternate(for: holder) {
      case .found(let found): alternate = try DwarfFile(found)
      case .refused(let why): problems.append(why)
      case .none: break
      }
      dwarf.alternate = alternate
      let split = SplitUnits(program: image)
      return DebugInformation(dwarf) { [weak self] unit in
        switch split.unit(for: unit) {
        case .success(let found): return found
        case .failure(let error):
          self?.problems.append(error.text)
          return nil
        }
      }
    } catch {
      problems.append(error.text)
      return nil
    }
  }
}

private func coarseNanoseconds() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
  return clinux_clock_nanoseconds(time)
}
