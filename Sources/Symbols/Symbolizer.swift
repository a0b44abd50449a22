import CulpritStallRecord
import Glibc

/// Symbolizes the addresses of a recording.
///
/// Opens a module's file at the first lookup and keeps it open. Not safe for concurrent use.
package final class Symbolizer {
  private typealias ModuleState = SharedFiles.State

  private let map: ModuleMap
  private let search: DebugSearch
  private let process: Int32?
  private lazy var perfMap = process.flatMap(PerfMap.init(process:))
  private var states: [ModuleState?]
  private let recorded: [RuntimeAddress: [ResolvedFrame]]
  private var known: [RuntimeAddress: [ResolvedFrame]] = [:]
  private let memoryMax: Int
  private let unread: [String: String]
  private let shared: SharedFiles?
  /// The modules with open files, in order of last use.
  private var order: [Int] = []

  /// - Parameters:
  ///   - modules: The mapped modules of the process.
  ///   - names: Known names, which need no lookup: ``Recording/names``.
  ///   - process: The process, while it runs. It provides deleted or replaced files, and the map of a just-in-time
  ///     compiler.
  ///   - search: Where to search for separate debug information.
  ///   - memoryMax: The approximate limit in bytes for data read from files, beyond which the least recently used files
  ///     are dropped.
  ///   - unread: The paths of files that must not be opened, with the reason as a sentence without a final period.
  ///   - shared: Files opened by other symbolizers with the same `search`, of this process or without a `process`.
  package init(
    modules: [Module],
    names: [RuntimeAddress: [ResolvedFrame]] = [:],
    process: Int32? = nil,
    search: DebugSearch = DebugSearch(),
    memoryMax: Int = .max,
    unread: [String: String] = [:],
    shared: SharedFiles? = nil
  ) {
    self.unread = unread
    self.shared = shared
    self.memoryMax = memoryMax
    self.process = process
    map = ModuleMap(modules)
    states = [ModuleState?](repeating: nil, count: modules.count)
    recorded = names.filter { !$0.value.isEmpty }
    self.search = search
  }

  /// Returns the functions of `frame`, innermost first if calls were inlined.
  ///
  /// The result is never empty. A frame without a name contains the reason.
  package func resolve(_ frame: StackFrame) -> [ResolvedFrame] {
    let address = frame.lookupAddress
    if let resolved = known[address] { return resolved }
    let noted = recorded[address]
    if let noted, noted.allSatisfy({ $0.function != nil }) {
      // Recordings contain no full names.
      let resolved = noted.map { frame in
        var frame = frame
        frame.fullName = frame.fullName ?? frame.rawName.map { demangle($0).full }
        return frame
      }
      keep(resolved, at: address)
      return resolved
    }
    var resolved = lookUp(frame)
    // The recording has no name; the files available now might have one.
    if let noted, !resolved.contains(where: { $0.function != nil }) { resolved = noted }
    // A call from inlined code without a line is compiler glue: an inlined thunk that calls a specialized copy of its
    // function.
    if frame.isReturnAddress {
      let called = resolved.first?.called
      // The outermost frame owns the code, even if a damaged file marks it as inlined.
      resolved = resolved.dropLast().filter { !$0.isInlined || $0.location != nil } + resolved.suffix(1)
      resolved[0].called = called
    }
    keep(resolved, at: address)
    return resolved
  }

  private func keep(_ resolved: [ResolvedFrame], at address: RuntimeAddress) {
    if known.count >= knownMax { known = [:] }
    known[address] = resolved
  }

  package var problems: [String] {
    states.flatMap { state -> [String] in
      if case .opened(let file) = state { file.problems } else { [] }
    }
  }

  private func lookUp(_ frame: StackFrame) -> [ResolvedFrame] {
    let address = frame.lookupAddress
    guard let index = map.index(at: address) else {
      if let (name, start) = perfMap?.function(at: address) {
        return [
          ResolvedFrame(
            function: name,
            fullName: name,
            rawName: name,
            module: perfMap?.path ?? "",
            start: FileAddress(start),
            address: .runtime(address)
          )
        ]
      }
      return [ResolvedFrame(function: nil, module: "", address: .runtime(address), missing: .notMapped)]
    }
    let module = map.modules[index]
    let path = module.path
    guard let offset = module.fileOffset(of: address), let estimate = module.fileAddress(of: address) else {
      return [ResolvedFrame(function: nil, module: path, address: .runtime(address), missing: .notMapped)]
    }
    // Nameless functions still have a start, which all their addresses share.
    func nameless(_ reason: MissingNameReason) -> [ResolvedFrame] {
      let start = frame.functionStart.flatMap { map.index(at: $0) == index ? module.fileAddress(of: $0) : nil }
      return [
        ResolvedFrame(function: nil, module: path, start: start, address: .file(estimate), missing: reason)
      ]
    }
    switch state(of: index) {
    case .unusable(let reason): return nameless(reason)
    case .opened(let file):
      guard file.isIntact() else {
        states[index] = .unusable(.unreadableFile("\(path) became shorter while it was read"))
        return lookUp(frame)
      }
      // A file with only debug information has no code at any offset.
      guard let fileAddress = file.image.fileAddress(ofOffset: offset) ?? module.bias.map({ _ in estimate }) else {
        return nameless(.noSymbolHere)
      }
      defer { noteUse(of: index) }
      var frames =
        frame.kind == .asyncCaller
        ? file.framesOfResumption(at: fileAddress, module: path)
        : file.frames(at: fileAddress, module: path, isReturn: frame.isReturnAddress)
      if let last = frames.indices.last, frames[last].function == nil, frames[last].start == nil {
        frames[last].start = nameless(.noSymbolHere).first?.start
      }
      return frames
    }
  }

  private var knownMax: Int { min(1 << 16, memoryMax >> 12) }

  private func noteUse(of index: Int) {
    if order.last != index {
      order.removeAll { $0 == index }
      order.append(index)
    }
    guard memoryMax < .max else { return }
    lookUpsSinceCheck += 1
    // Summing up memory sizes takes longer than a lookup, so it is done once in 16 lookups.
    guard lookUpsSinceCheck >= 16 else { return }
    lookUpsSinceCheck = 0
    var total = byteCount
    for forgotten in order where total > memoryMax {
      guard case .opened(let file) = states[forgotten] else { continue }
      file.forgetUnits()
      total = byteCount
    }
    while total > memoryMax, let forgotten = order.first {
      order.removeFirst()
      states[forgotten] = nil
      total = byteCount
    }
  }

  private var lookUpsSinceCheck = 0

  var byteCount: Int {
    states.reduce(0) { if case .opened(let file) = $1 { $0 + file.byteCount } else { $0 } }
  }

  private func state(of index: Int) -> ModuleState {
    if let state = states[index] { return state }
    let module = map.modules[index]
    let state = shared?.state(of: module, open: open) ?? open(module)
    states[index] = state
    return state
  }

  /// Opens the file of `module` if it is still the file that ran.
  private func open(_ module: Module) -> ModuleState {
    guard module.isFile else { return openVDSO(module) }
    if let why = unread[module.path] { return .unusable(.unreadableFile(why)) }
    let deleted = " (deleted)"
    let path = module.path.hasSuffix(deleted) ? String(module.path.dropLast(deleted.count)) : module.path
    var isDeleted = path != module.path
    if !isDeleted, module.buildID.isEmpty, let process, let now = ProcessFiles.presentPath(of: module, in: process) {
      isDeleted = now != path
    }
    var reason: MissingNameReason
    if isDeleted, module.buildID.isEmpty {
      reason = .unverifiable
    } else {
      do {
        let image = try ElfImage(path: path)
        if isFile(image, of: module) { return .opened(SymbolFile(image, search: search)) }
        reason =
          image.buildID == module.buildID
          ? .unverifiable : .changedFile(expected: describe(module.buildID), found: describe(image.buildID))
      } catch { reason = .unreadableFile(error.text) }
    }
    if let process {
      // Device and inode verify a file mapped by this process. For other processes, only the build ID verifies it.
      let isOwn = process == getpid()
      for other in ProcessFiles.paths(of: module, in: process) {
        let isKnown =
          !module.buildID.isEmpty
          || isOwn && (other.contains("/map_files/") || other.hasSuffix("/exe") && ProcessFiles.isOwnExecutable(module))
        guard isKnown else { continue }
        if let image = try? ElfImage(path: other), isFile(image, of: module) {
          return .opened(SymbolFile(image, search: search))
        }
      }
    }
    if let other = search.file(withBuildID: module.buildID, formerlyAt: path), let image = try? ElfImage(path: other) {
      return .opened(SymbolFile(image, search: search))
    }
    return .unusable(reason)
  }

  /// Whether `image` is the file of `module`. Compares build IDs. For a file of this process without a build ID,
  /// compares device and inode.
  private func isFile(_ image: ElfImage, of module: Module) -> Bool {
    guard image.buildID == module.buildID else { return false }
    guard module.buildID.isEmpty, process == getpid(), let mapped = module.identity,
      let found = ProcessFiles.ownIdentity(at: UInt64(UInt(bitPattern: image.bytes.base)))
    else { return true }
    return found == mapped
  }

  private func openVDSO(_ module: Module) -> ModuleState {
    guard module.path == "[vdso]", let image = ProcessFiles.ownVDSO() else { return .unusable(.noFile) }
    guard !image.buildID.isEmpty, image.buildID == module.buildID else { return .unusable(.noFile) }
    return .opened(SymbolFile(image, search: search))
  }

  private func describe(_ buildID: [UInt8]) -> String { buildID.isEmpty ? "none" : hexadecimal(buildID) }
}
