import CCulpritLinux
import CulpritStallRecord

/// The modules and the debugger of the process, cached because thousands of stalls can begin together.
struct ProcessReading {
  private var modules: [Module] = []
  private var modulesTime: UInt64 = 0
  private var debuggerID: Int32?
  private var debuggerTime: UInt64 = 0

  /// Maximum ages in nanoseconds: for a work item under suspicion, and for a stall that begins.
  private static let earlierAge: UInt64 = 1_000_000_000
  private static let presentAge: UInt64 = 100_000_000

  mutating func earlierModules(_ read: () -> [Module]) -> [Module] { modules(Self.earlierAge, read) }

  mutating func presentModules(_ read: () -> [Module]) -> [Module] { modules(Self.presentAge, read) }

  private mutating func modules(_ age: UInt64, _ read: () -> [Module]) -> [Module] {
    if modulesTime == 0 || clinux_clock_ns() &- modulesTime >= age {
      let present = read()
      if present != modules { modules = present }
      modulesTime = clinux_clock_ns()
    }
    return modules
  }

  mutating func debugger() -> Int32? {
    if debuggerTime == 0 || clinux_clock_ns() &- debuggerTime >= Self.presentAge {
      debuggerID = ProcessMap.debugger()
      debuggerTime = clinux_clock_ns()
    }
    return debuggerID
  }
}
