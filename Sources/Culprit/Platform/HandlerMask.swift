import CCulpritLinux

/// The signal mask of a watchdog's thread while it runs application code.
///
/// Otherwise the thread blocks all signals. Threads and processes started by a handler inherit the mask. So a handler
/// runs with the mask of the thread that installed it, plus the signals that the main thread blocks by then: a service
/// might start its watchdog before it decides to read a signal from a descriptor. A handler that runs at that moment
/// can still receive the signal until it returns.
struct HandlerMask: Sendable {
  private let creator: UInt64

  /// Takes the mask of the calling thread, which installs a handler.
  init() { creator = clinux_mask_get() }

  /// Runs `body`, application code, with this mask and the main thread's present one.
  func run<Result>(_ body: () -> Result) -> Result { run(mainMask: clinux_mask_of_main(), body) }

  /// Runs `body`, application code, with this mask. The main thread blocks the signals `mainMask`.
  func run<Result>(mainMask: UInt64, _ body: () -> Result) -> Result {
    let own = clinux_mask_set(creator | mainMask)
    defer { _ = clinux_mask_set(own) }
    return allowingFork(body)
  }
}
