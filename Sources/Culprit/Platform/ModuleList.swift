import CCulpritLinux
import CulpritStallRecord

/// The modules of a stall's stacks: all modules present when the stall begins, and other modules that a stack refers
/// to.
struct ModuleList {
  private(set) var all: [Module] = []
  /// The modules at the time of the first stack.
  private let earlier: [Module]
  /// Modules that overlap another module in ``earlier``: their addresses get no name.
  private var disputed: [Module] = []
  /// The earliest time of the next reading. Addresses outside all modules would cause many readings.
  private var nextLoad: UInt64 = 0

  private static let interval: UInt64 = 1_000_000_000

  private let read: @Sendable () -> [Module]

  init(earlier: [Module] = [], read: @escaping @Sendable () -> [Module] = ProcessMap.modules) {
    self.earlier = earlier
    self.read = read
  }

  /// Returns the modules of `stacks`, which have just been taken.
  static func covering(_ stacks: [Stack]) -> [Module] {
    var modules = ModuleList()
    modules.load()
    for stack in stacks { modules.cover(stack) }
    return modules.all
  }

  /// Loads the modules in `present`; reads them if `nil`.
  mutating func load(_ present: [Module]? = nil) {
    load(now: present ?? read())
    nextLoad = clinux_clock_ns() &+ Self.interval
  }

  mutating func load(now: [Module]) {
    guard now != earlier || now.map(\.identity) != earlier.map(\.identity) else {
      // Assigning `earlier` shares its storage between many stalls that begin together.
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

  /// Adds and returns the missing modules of `stack`.
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

  /// Adds missing modules. `find` returns the module at an address, and possibly others.
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

  private func isFree(_ module: Module) -> Bool { !(all + disputed).contains { Self.overlap($0, module) } }

  /// Whether two modules are the same file at the same addresses. Paths can change, locking memory splits mappings, and
  /// build-ids are missing if headers are not readable.
  private static func isSame(_ one: Module, _ other: Module) -> Bool {
    func places(_ module: Module) -> Set<UInt64> {
      Set(module.mappings.map { $0.start.value &- $0.fileOffset })
    }
    let isSameFile =
      if one.buildID.isEmpty || other.buildID.isEmpty {
        // The loader reports the path only.
        one.identity != nil && other.identity != nil ? one.identity == other.identity : one.path == other.path
      } else {
        one.buildID == other.buildID
      }
    return isSameFile && places(one) == places(other)
  }

  private static func overlap(_ one: Module, _ other: Module) -> Bool {
    one.mappings.contains { a in other.mappings.contains { b in a.start < b.end && b.start < a.end } }
  }
}
