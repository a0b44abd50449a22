import CCulpritLinux
import CulpritStallRecord

/// The modules of the running process as far as stacks need them: those that are there at the beginning of a stall, those
/// that were there earlier and are met in a stack, and those that were loaded since and are.
struct ModuleList {
  private(set) var all: [Module] = []
  /// Those that were there when the first stack was taken.
  private let earlier: [Module]
  /// Modules where there was another one when the first stack was taken. Which of them an address is in cannot be told, and a
  /// name would be a guess.
  private var disputed: [Module] = []
  /// The process's modules are read again no sooner than this, on the clock of the observer: a stack may have addresses that
  /// are in no module.
  private var nextLoad: UInt64 = 0

  private static let interval: UInt64 = 1_000_000_000

  /// Reads the modules of the process.
  private let read: @Sendable () -> [Module]

  /// An empty list for stacks that were taken when the process had the modules `earlier`.
  ///
  /// - Parameters:
  ///   - earlier: Those modules.
  ///   - read: Reads the modules of the process.
  init(earlier: [Module] = [], read: @escaping @Sendable () -> [Module] = ProcessMap.modules) {
    self.earlier = earlier
    self.read = read
  }

  /// The modules that `stacks`, which were taken just now, need.
  static func covering(_ stacks: [Stack]) -> [Module] {
    var modules = ModuleList()
    modules.load()
    for stack in stacks { modules.cover(stack) }
    return modules.all
  }

  /// Takes the modules that are there now: `present`, if they have just been read.
  mutating func load(_ present: [Module]? = nil) {
    load(now: present ?? read())
    nextLoad = clinux_clock_ns() &+ Self.interval
  }

  /// Takes the modules `now`.
  mutating func load(now: [Module]) {
    guard now != earlier || now.map(\.identity) != earlier.map(\.identity) else {
      // Not a copy: many stalls that begin together have the same list.
      (all, disputed) = (earlier, [])
      return
    }
    disputed = now.filter { module in
      earlier.contains { Self.overlap($0, module) && !Self.isSame($0, module) }
    }
    all = now.filter { !disputed.contains($0) }
      .map { module in
        guard module.buildID.isEmpty else { return module }
        return earlier.first { Self.isSame($0, module) && !$0.buildID.isEmpty } ?? module
      }
  }

  /// Adds the modules that `stack` needs and that are not known yet. Returns them.
  @discardableResult
  mutating func cover(_ stack: Stack) -> [Module] {
    var due = nextLoad
    let read = read
    let new = cover(stack) { address in
      if let module = ProcessMap.module(at: address) { return [module] }
      guard clinux_clock_ns() >= due else { return [] }
      due = clinux_clock_ns() &+ Self.interval
      return read()
    }
    nextLoad = due
    return new
  }

  /// The same with `find`, which finds the module at an address, and perhaps others.
  mutating func cover(_ stack: Stack, find: (RuntimeAddress) -> [Module]) -> [Module] {
    var new: [Module] = []
    for address in stack.frames.map(\.address) where !all.contains(where: { $0.contains(address) }) {
      let found = earlier.filter { $0.contains(address) }
      for module in found.isEmpty ? find(address) : found where isFree(module) {
        new.append(module)
        all.append(module)
      }
    }
    return new
  }

  /// Whether no other module is where `module` is.
  private func isFree(_ module: Module) -> Bool { !(all + disputed).contains { Self.overlap($0, module) } }

  /// Whether two modules are one, seen twice: the same file at the same place, whatever its path is by now. Locking a part of it in
  /// memory divides its mappings, and its header cannot always be read.
  private static func isSame(_ one: Module, _ other: Module) -> Bool {
    func places(_ module: Module) -> Set<UInt64> {
      Set(module.mappings.map { $0.start.value &- $0.fileOffset })
    }
    let isSameFile =
      if one.buildID.isEmpty || other.buildID.isEmpty {
        // The loader knows the path only.
        one.identity != nil && other.identity != nil ? one.identity == other.identity : one.path == other.path
      } else {
        one.buildID == other.buildID
      }
    return isSameFile && places(one) == places(other)
  }

  /// Whether two modules claim the same memory.
  private static func overlap(_ one: Module, _ other: Module) -> Bool {
    one.mappings.contains { a in other.mappings.contains { b in a.start < b.end && b.start < a.end } }
  }
}
