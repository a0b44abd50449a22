import CCulpritLinux
import CulpritStallRecord

/// Reads the modules of the process on the reporter's thread, also for the recorder. Reading takes a kernel lock that a
/// stalled thread can hold.
final class ModuleReader: Sendable {
  /// Multiple of a reading's duration, at most of `freshTimeMax`, for which the reading is reused. Limits readings to
  /// 0.5 % of a CPU.
  private static let freshFactor: UInt64 = 199
  private static let freshTimeMax: UInt64 = 5_000_000

  /// Longest wait of a request, in nanoseconds.
  private static let patience: UInt64 = 200_000_000

  private let reader: WakeUp
  private let reading = Mutex(Reading())

  private struct Reading {
    var modules: [Module] = []
    /// Time until which a reading is reused: many stalls can be declared at once.
    var freshUntil: UInt64 = 0
    var request: Promise<Bool>?
  }

  /// The thread that `reader` wakes must call ``attend()``.
  init(reader: WakeUp) { self.reader = reader }

  func start() { reading.withLock { $0.modules = ProcessMap.modules() } }

  var known: [Module] { reading.withLock { $0.modules } }

  /// Returns the present modules, or those of the last reading if the kernel does not answer in time.
  func present() -> [Module] {
    let (request, isNew) = reading.withLock { reading -> (Promise<Bool>?, Bool) in
      if clinux_clock_ns() < reading.freshUntil { return (nil, false) }
      if let request = reading.request { return (request, false) }
      let request = Promise<Bool>()
      reading.request = request
      return (request, true)
    }
    if isNew, let request {
      reader.notify()
      _ = request.wait(until: clinux_clock_ns() &+ Self.patience)
    }
    return reading.withLock { $0.modules }
  }

  /// Answers a pending request. Returns the time of the next call.
  func attend() -> UInt64 {
    guard let request = reading.withLock({ $0.request }) else { return .max }
    let began = clinux_clock_ns()
    var modules = ProcessMap.modules()
    let end = clinux_clock_ns()
    reading.withLock { reading in
      // The old modules are freed outside the lock, because a stall might hold the allocator's lock.
      if !modules.isEmpty { swap(&reading.modules, &modules) }
      reading.freshUntil = end &+ Self.freshFactor &* min(clinux_clock_between_ns(began, end), Self.freshTimeMax)
      reading.request = nil
    }
    request.fulfill(true)
    return .max
  }
}
