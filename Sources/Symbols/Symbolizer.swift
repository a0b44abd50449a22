import StallRecord

/// Names the addresses of a recording.
///
/// Opens each module's file when an address falls into it and keeps it open. Not safe for use from several threads at
/// once; never used on the observing path.
public final class Symbolizer {
  private struct OpenedFile {
    var file: ElfFile
    var lines: LineTable?
  }

  private enum ModuleState {
    case opened(OpenedFile)
    case unusable(MissingNameReason)
  }

  private let map: ModuleMap
  private var states: [Int: ModuleState] = [:]
  private var known: [RuntimeAddress: ResolvedFrame] = [:]
  private var names: [String: DemangledName] = [:]

  /// A symbolizer for a process into which `modules` were mapped.
  public init(modules: [Module]) { map = ModuleMap(modules) }

  /// What `frame` is called: the innermost function first where calls were inlined.
  ///
  /// There is always an answer; a frame without a name says why it has none.
  public func resolve(_ frame: StackFrame) -> [ResolvedFrame] {
    let address = frame.lookupAddress
    if let resolved = known[address] { return [resolved] }
    let resolved = lookUp(address)
    known[address] = resolved
    return [resolved]
  }

  private func lookUp(_ address: RuntimeAddress) -> ResolvedFrame {
    guard let index = map.index(at: address) else {
      return ResolvedFrame(function: nil, module: "", address: address.value, missing: .notMapped)
    }
    let module = map.modules[index]
    guard let offset = module.fileOffset(of: address) else {
      return ResolvedFrame(function: nil, module: module.path, address: address.value, missing: .notMapped)
    }
    switch state(of: index) {
    case .unusable(let reason):
      return ResolvedFrame(function: nil, module: module.path, address: offset, missing: reason)
    case .opened(let opened):
      guard let fileAddress = opened.file.fileAddress(ofOffset: offset) else {
        return ResolvedFrame(function: nil, module: module.path, address: offset, missing: .noSymbolHere)
      }
      return name(fileAddress, in: opened, module: module)
    }
  }

  private func name(_ address: FileAddress, in opened: OpenedFile, module: Module) -> ResolvedFrame {
    var frame = ResolvedFrame(function: nil, module: module.path, address: address.value)
    if let symbol = opened.file.symbols.symbol(at: address), let rawName = opened.file.name(of: symbol) {
      let name = names[rawName] ?? demangle(rawName)
      names[rawName] = name
      frame.function = name.short
      frame.fullName = name.full
      frame.rawName = rawName
      frame.swiftModule = name.swiftModule
      frame.start = FileAddress(symbol.start)
      // Code that the compiler attributes to no line is still in its function.
      frame.location = opened.lines?.location(of: address) ?? opened.lines?.location(of: FileAddress(symbol.start))
    } else if opened.file.isLinkageStub(address) {
      // A jump to a function in another module, made by the linker.
      frame.function = "linkage stub"
      frame.rawName = ".plt"
    } else {
      frame.start = opened.file.functionStart(at: address)
      frame.missing = opened.file.symbols.count == 0 ? .noSymbols : .noSymbolHere
    }
    return frame
  }

  private func state(of index: Int) -> ModuleState {
    if let state = states[index] { return state }
    let state = open(map.modules[index])
    states[index] = state
    return state
  }

  /// Opens the file of `module`, provided that it is still the file that ran.
  private func open(_ module: Module) -> ModuleState {
    guard module.isFile else { return .unusable(.noFile) }
    let deleted = " (deleted)"
    let path = module.path.hasSuffix(deleted) ? String(module.path.dropLast(deleted.count)) : module.path
    if path != module.path, module.buildID.isEmpty { return .unusable(.unverifiable) }
    do {
      let file = try ElfFile(path: path)
      guard file.buildID == module.buildID else {
        return .unusable(.changedFile(expected: describe(module.buildID), found: describe(file.buildID)))
      }
      return .opened(OpenedFile(file: file, lines: LineTable(file)))
    } catch {
      return .unusable(.unreadableFile(error.text))
    }
  }

  private func describe(_ buildID: [UInt8]) -> String { buildID.isEmpty ? "none" : hexadecimal(buildID) }
}
