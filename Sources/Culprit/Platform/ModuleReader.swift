import CCulpritLinux
import CulpritStallRecord

/// Reads the modules of the process on the reporter's thread, also for the recorder: reading them takes a lock of the kernel,
/// which a stall can hold.
final class ModuleReader: Sendable {
  /// Modules that have just been read count as the present ones for this many times the time that reading them took, which counts
  /// up to `freshTimeMax`: reading takes half a percent of a CPU, and the answer is a second old at most.
  private static let freshFactor: UInt64 = 199
  private static let freshTimeMax: UInt64 = 5_000_000

  /// The longest wait of a request.
  private static let patience: UInt64 = 200_000_000

  private let reader: WakeUp
  private let reading = Mutex(Reading())

  private struct Reading {
    var modules: [Module] = []
    /// The time until which a request is answered with these modules: many stalls can be declared at once.
    var freshUntil: UInt64 = 0
    /// The pending request.
    var request: Promise<Bool>?
  }

  /// A reader whose ``attend()`` is called by the thread that `reader` wakes.
  init(reader: WakeUp) { self.reader = reader }

  /// Reads the modules for the first time.
  func start() { reading.withLock { $0.modules = ProcessMap.modules() } }

  /// The modules of the last reading.
  var known: [Module] { reading.withLock { $0.modules } }

  /// The modules of this process. Those of the last reading when the kernel does not answer in time.
  func present() -> [Module] {
    let (request, isNew) = reading.withLock { reading -> (Promise<Bool>?, Bool) in
      if clinux_clock_ns() < reading.freshUntil { return (nil, false) }
      if let request = reading.request { return (request, false) }
      let request = Promise<Bool>()
      reading.request = request
      return (request, true)
    }
    // A request that comes while an earlier one is pending does not wait as well.
    if isNew, let request {
      reader.notify()
      _ = request.wait(until: clinux_clock_ns() &+ Self.patience)
    }
    return reading.withLock { $0.modules }
  }

  /// Answers a pending request. Returns when to call again: never without one.
  func attend() -> UInt64 {
    guard let request = reading.withLock({ $0.request }) else { return .max }
    let began = clinux_clock_ns()
    var modules = ProcessMap.modules()
    let end = clinux_clock_ns()
    reading.withLock { reading in
      // Freed outside the lock: a stall might hold the allocator's lock, and threads that wait for this lock would hang, too.
      if !modules.isEmpty { swap(&reading.modules, &modules) }
      reading.freshUntil = end &+ Self.freshFactor &* min(clinux_clock_between_ns(began, end), Self.freshTimeMax)
      reading.request = nil
    }
    request.fulfill(true)
    return .max
  }
}
