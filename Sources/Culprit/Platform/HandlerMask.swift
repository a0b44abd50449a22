import CCulpritLinux
import Synchronization

/// The signal mask of a watchdog's thread while it runs application code.
///
/// Threads and processes started by a handler inherit the mask. It blocks the signals blocked by the installing thread,
/// and by the main thread now: a service might block signals after its watchdog's start.
struct HandlerMask: Sendable {
  /// Time, in nanoseconds, for which the main thread's mask is cached.
  private static let mainMaskTime: UInt64 = 10_000_000
  private static let mainMask = Atomic<UInt64>(0)
  private static let mainMaskRead = Atomic<UInt64>(0)

  private let creator: UInt64

  init() { creator = clinux_mask_get() }

  func run<Result>(_ body: () -> Result) -> Result {
    let own = clinux_mask_set(creator | Self.presentMainMask())
    defer { _ = clinux_mask_set(own) }
    return allowingFork(body)
  }

  private static func presentMainMask() -> UInt64 {
    let now = clinux_clock_ns()
    if now &- mainMaskRead.load(ordering: .acquiring) < mainMaskTime { return mainMask.load(ordering: .relaxed) }
    let mask = clinux_mask_of_main()
    mainMask.store(mask, ordering: .relaxed)
    mainMaskRead.store(now, ordering: .releasing)
    return mask
  }
}
