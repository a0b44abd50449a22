import CCulpritLinux
import CulpritStallRecord
import Glibc

/// What a symbol table says of an address.
package struct SymbolMatch {
  /// The name in the table.
  package var name: TextReference
  /// The first address and one past the last.
  package var range: AddressRange
  /// The source file that a local symbol is from, where the table says it.
  package var file: TextReference?
  /// A name for programmers, where `name` is one that the C library uses itself: `read`, which is `__GI___libc_read` as well.
  package var publicName: TextReference?
}

/// A file with code, and everything that names its addresses: symbols, unwind table, debug information, from the file or
/// from others that belong to it. Each is read when it is needed first.
final class SymbolFile {
  /// The file with the code.
  let image: ElfImage
  private let files: DebugFiles
  private(set) lazy var separate = findSeparate()
  private lazy var tables = loadTables()
  private lazy var starts = FunctionStarts(image)
  private(set) lazy var debug = loadDebug()
  private lazy var pltStubs = PLTStubs(image)
  private lazy var merged = loadMerged()
  /// What names of this file mean.
  let names = NameCache()
  /// Why debug information that is there is not used.
  private(set) var problems: [String] = []
  private var checkedAt: UInt64 = 0

  /// The file `image`, whose debug information is looked for by `search`.
  init(_ image: ElfImage, search: DebugSearch) {
    self.image = image
    files = DebugFiles(search: search)
  }

  /// Whether all files can still be read: none has become shorter since they were looked at, a few milliseconds ago at
  /// most.
  func isIntact() -> Bool {
    let now = coarseNanoseconds()
    guard now &- checkedAt > 4_000_000 else { return true }
    checkedAt = now
    return (image.file?.isIntact ?? true) && (separate?.file?.isIntact ?? true)
      && (alternate?.image.file?.isIntact ?? true)
  }

  /// How much memory everything that was read of the file takes, about. What is mapped does not count: the kernel takes it
  /// back when it is short of memory.
  var byteCount: Int {
    image.inflatedBytes + (separate?.inflatedBytes ?? 0) + (alternate?.image.inflatedBytes ?? 0) + names.byteCount
      + (areTablesLoaded ? tables.reduce(0) { $0 + $1.byteCount } : 0) + (isDebugLoaded ? debug?.byteCount ?? 0 : 0)
  }

  /// Forgets what can be read again soon: units and names, but not the tables that lead to them.
  func forgetUnits() {
    if isDebugLoaded { debug?.forgetUnits() }
    names.forget()
  }

  private var areTablesLoaded = false
  private var isDebugLoaded = false

  /// Whether there are symbols.
  var hasSymbols: Bool { tables.contains { $0.count > 0 } }

  /// The symbol that covers `address`, with the name `preferred` if it is one of several for the same code.
  func symbol(at address: FileAddress, preferring preferred: TextReference? = nil) -> SymbolMatch? {
    var best: SymbolMatch?
    for table in tables {
      guard let symbol = table.symbol(at: address, preferring: preferred) else { continue }
      if let best, best.range.start >= symbol.range.start { continue }
      best = symbol
    }
    return best
  }

  /// The other names of the code that `symbol` stands for, which are as good.
  func otherNames(of symbol: SymbolMatch) -> [TextReference] {
    tables.flatMap { $0.otherNames(of: symbol) }
  }

  /// The calls that the code at `address` is in, the innermost first; none when debug information does not cover it.
  func calls(at address: FileAddress) -> [SourceCall] { debug?.calls(at: address.value) ?? [] }

  /// Which compilation the code at `address` is from.
  func origin(at address: FileAddress) -> CodeOrigin {
    guard let debug else { return .unknown }
    if let unit = debug.compilation(at: address.value) { return .unit(unit) }
    return isDescribed ? .undescribed : .unknown
  }

  /// The same for a function of `swiftModule` that begins at `start`, and of which debug information says nothing, because the
  /// optimiser has made it of several: the functions of a unit lie beside each other.
  func originOfMerged(at start: FileAddress, swiftModule: String) -> CodeOrigin? {
    debug?.compilations(beside: start.value).first { $0.swiftModule == swiftModule }.map { .unit($0) }
  }

  /// Whether the program was compiled with debug information, and not merely something that was linked into it.
  private lazy var isDescribed =
    tables.lazy.compactMap(\.main).first.map { debug?.compilation(at: $0) != nil } ?? false

  /// The start of the function that covers `address` according to the unwind table.
  func functionStart(at address: FileAddress) -> FileAddress? { starts.start(at: address) }

  /// The name of the PLT stub at `address`, `poll@plt`, or `PLT stub` without a known target; `nil` when there is none.
  func pltStub(at address: FileAddress) -> String? {
    switch pltStubs.target(at: address.value) {
    case .function(let name): name.string + "@plt"
    case .resolver(let start):
      symbol(at: FileAddress(start)).map { ($0.publicName ?? $0.name).string + "@plt" } ?? "PLT stub"
    case .unknown: "PLT stub"
    case nil: nil
    }
  }

  /// The name of the function that is called before `address`, and the first address of the function that has its code and
  /// that of others; `nil` when no merged function is called there, or it is not known which.
  func mergedFunction(calledBefore address: FileAddress) -> (name: TextReference, merged: UInt64)? {
    merged?.function(calledBefore: address.value)
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

  /// The tables of symbols, the fullest first.
  private func loadTables() -> [SymbolTable] {
    areTablesLoaded = true
    if image.sections.contains(where: { $0.type == ElfFormat.symbolTable }) { return [SymbolTable(image)] }
    if let separate, separate.sections.contains(where: { $0.type == ElfFormat.symbolTable }) {
      return [SymbolTable(separate, code: image)]
    }
    // A file that was stripped for distribution keeps its exported symbols, and others in a file of their own, packed.
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

/// The coarse monotonic time in nanoseconds: cheap, and exact to a few milliseconds.
private func coarseNanoseconds() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
  return clinux_clock_nanoseconds(time)
}
