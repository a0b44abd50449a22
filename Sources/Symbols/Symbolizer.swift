import StallRecord

/// Names the addresses of a recording.
///
/// Opens each module's file when an address falls into it and keeps it open. Not safe for use from several threads at
/// once; never used on the observing path.
public final class Symbolizer {
  private enum ModuleState {
    case opened(SymbolFile)
    case unusable(MissingNameReason)
  }

  private let map: ModuleMap
  private let search: DebugSearch
  private var states: [Int: ModuleState] = [:]
  private var known: [RuntimeAddress: [ResolvedFrame]]
  private let names = NameCache()

  /// A symbolizer for a process into which `modules` were mapped.
  ///
  /// - Parameters:
  ///   - modules: The modules.
  ///   - names: What is known already and need not be looked up: ``Recording/names``.
  ///   - search: Where debug information is looked for that is not in the modules' own files.
  public init(
    modules: [Module],
    names: [RuntimeAddress: [ResolvedFrame]] = [:],
    search: DebugSearch = DebugSearch()
  ) {
    map = ModuleMap(modules)
    known = names.filter { !$0.value.isEmpty }
    self.search = search
  }

  /// What `frame` is called: the innermost function first where calls were inlined.
  ///
  /// There is always an answer; a frame without a name says why it has none.
  public func resolve(_ frame: StackFrame) -> [ResolvedFrame] {
    let address = frame.lookupAddress
    if let resolved = known[address] { return resolved }
    let resolved = lookUp(address)
    known[address] = resolved
    return resolved
  }

  /// Why debug information that is there was not used, in sentences without their end.
  public var problems: [String] {
    states.keys.sorted().flatMap { index -> [String] in
      if case .opened(let file) = states[index] { file.problems } else { [] }
    }
  }

  private func lookUp(_ address: RuntimeAddress) -> [ResolvedFrame] {
    guard let index = map.index(at: address) else {
      return [ResolvedFrame(function: nil, module: "", address: address.value, missing: .notMapped)]
    }
    let module = map.modules[index]
    guard let offset = module.fileOffset(of: address) else {
      return [ResolvedFrame(function: nil, module: module.path, address: address.value, missing: .notMapped)]
    }
    switch state(of: index) {
    case .unusable(let reason):
      return [ResolvedFrame(function: nil, module: module.path, address: offset, missing: reason)]
    case .opened(let file):
      guard file.isIntact else {
        states[index] = .unusable(.unreadableFile("\(module.path) became shorter while it was read"))
        return lookUp(address)
      }
      guard let fileAddress = file.image.fileAddress(ofOffset: offset) else {
        return [ResolvedFrame(function: nil, module: module.path, address: offset, missing: .noSymbolHere)]
      }
      return file.frames(at: fileAddress, module: module.path, names)
    }
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
      let image = try ElfImage(path: path)
      guard image.buildID == module.buildID else {
        return .unusable(.changedFile(expected: describe(module.buildID), found: describe(image.buildID)))
      }
      return .opened(SymbolFile(image, search: search))
    } catch {
      return .unusable(.unreadableFile(error.text))
    }
  }

  private func describe(_ buildID: [UInt8]) -> String { buildID.isEmpty ? "none" : hexadecimal(buildID) }
}

/// Names that were demangled before.
final class NameCache {
  private var names: [String: DemangledName] = [:]

  /// What `rawName` means.
  func name(_ rawName: String) -> DemangledName {
    if let known = names[rawName] { return known }
    let name = demangle(rawName)
    names[rawName] = name
    return name
  }
}
