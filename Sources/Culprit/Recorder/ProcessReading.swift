import CCulpritLinux
import CulpritStallRecord

/// The process's modules and its debugger, read once for all stalls of a moment: thousands can begin together. Lists
/// without a difference share their memory.
struct ProcessReading {
  private var modules: [Module] = []
  private var modulesTime: UInt64 = 0
  private var debuggerID: Int32?
  private var debuggerTime: UInt64 = 0

  /// The age of a list of modules for work that begins to be sampled, and of a reading for a stall that begins.
  private static let earlierAge: UInt64 = 1_000_000_000
  private static let presentAge: UInt64 = 100_000_000

  /// The modules at some moment of the last second.
  mutating func earlierModules(_ read: () -> [Module]) -> [Module] { modules(Self.earlierAge, read) }

  /// The modules now.
  mutating func presentModules(_ read: () -> [Module]) -> [Module] { modules(Self.presentAge, read) }

  private mutating func modules(_ age: UInt64, _ read: () -> [Module]) -> [Module] {
    if modulesTime == 0 || clinux_clock_ns() &- modulesTime >= age {
      let present = read()
      if present != modules { modules = present }
      modulesTime = clinux_clock_ns()
    }
    return modules
  }

  /// The process that debugs this one now.
  mutating func debugger() -> Int32? {
    if debuggerTime == 0 || clinux_clock_ns() &- debuggerTime >= Self.presentAge {
      debuggerID = ProcessMap.debugger()
      debuggerTime = clinux_clock_ns()
    }
    return debuggerID
  }
}
