import CCulpritLinux
import CulpritStallRecord

/// The modules and the debugger of the process, cached because thousands of stalls can begin together. Equal module
/// lists share their memory.
struct ProcessReading {
  private var modules: [Module] = []
  private var modulesTime: UInt64 = 0
  private var debuggerID: Int32?
  private var debuggerTime: UInt64 = 0

  /// Maximum age, in nanoseconds, of the modules for a work item under suspicion, and of modules and debugger for a
  /// stall that begins.
  private static let earlierAge: UInt64 = 1_000_000_000
  private static let presentAge: UInt64 = 100_000_000

  /// Returns the modules, at most one second old.
  mutating func earlierModules(_ read: () -> [Module]) -> [Module] { modules(Self.earlierAge, read) }

  /// Returns the modules, at most 100 ms old.
  mutating func presentModules(_ read: () -> [Module]) -> [Module] { modules(Self.presentAge, read) }

  private mutating func modules(_ age: UInt64, _ read: () -> [Module]) -> [Module] {
    if modulesTime == 0 || clinux_clock_ns() &- modulesTime >= age {
      let present = read()
      if present != modules { modules = present }
      modulesTime = clinux_clock_ns()
    }
    return modules
  }

  /// Returns the id of the process that debugs this one, at most 100 ms old; `nil` without a debugger.
  mutating func debugger() -> Int32? {
    if debuggerTime == 0 || clinux_clock_ns() &- debuggerTime >= Self.presentAge {
      debuggerID = ProcessMap.debugger()
      debuggerTime = clinux_clock_ns()
    }
    return debuggerID
  }
}
