import CCulpritLinux

/// The signals that a thread of the watchdog's lets in while it runs code of the application.
///
/// The thread blocks them all otherwise. What the application starts in a handler inherits the mask, so a handler runs with that of
/// the thread which installed it, and with what the main thread blocks by then: a service may decide only after it has started its
/// watchdog that a signal is read from a descriptor. A handler that runs at that moment lets it in until it returns.
struct HandlerMask: Sendable {
  private let creator: UInt64

  /// That of the calling thread, which installs a handler.
  init() { creator = clinux_mask_get() }

  /// Runs `body`, which is the application's.
  func run<Result>(_ body: () -> Result) -> Result { run(mainMask: clinux_mask_of_main(), body) }

  /// Runs `body`, which is the application's, while the main thread blocks the signals `mainMask`.
  func run<Result>(mainMask: UInt64, _ body: () -> Result) -> Result {
    let own = clinux_mask_set(creator | mainMask)
    defer { _ = clinux_mask_set(own) }
    return resting(body)
  }
}
