import CauseWork
import Foundation

extension Scenario {
  static let signals = [
    Scenario("signal-semaphore", .swift, .signal, "awaitShop(_:)") { stage in
      let semaphore = DispatchSemaphore(value: 0)
      onThread("opening") { begun in
        begun()
        usleep(1_800_000)
        semaphore.signal()
      }
      try stage.turn { awaitShop(semaphore) }
    },
    Scenario("signal-group", .swift, .signal, "awaitImages(_:)") { stage in
      let group = DispatchGroup()
      for _ in 0..<2 { DispatchQueue.global().async(group: group) { usleep(1_800_000) } }
      try stage.turn { awaitImages(group) }
    },
    Scenario("signal-nscondition", .swift, .signal, "awaitTable(_:)") { stage in
      let condition = NSCondition()
      onThread("waiter") { begun in
        begun()
        usleep(1_800_000)
        condition.lock()
        condition.signal()
        condition.unlock()
      }
      try stage.turn { awaitTable(condition) }
    },
    // The iteration on this thread is short, and the iteration on another thread is long.
    Scenario("signal-concurrent-perform", .swift, .signal, "scaleAll(until:)") { stage in
      try stage.turn { scaleAll(until: until(1.8)) }
    },
    // The signal comes from a busy block of low priority.
    Scenario("signal-swift-inversion", .swift, .signal, "awaitThumbnail(_:)") { stage in
      let semaphore = DispatchSemaphore(value: 0)
      DispatchQueue.global(qos: .background).async {
        scaleThumbnail(until: until(1.8))
        semaphore.signal()
      }
      try stage.turn { awaitThumbnail(semaphore) }
    },
    Scenario("signal-c-semaphore", .c, .signal, "await_shipment") { stage in
      begin_shipment(1800)
      try stage.turn { await_shipment() }
    },
    Scenario("signal-c-condition", .c, .signal, "await_payment") { stage in
      begin_payment(1800)
      try stage.turn { await_payment() }
    },
    Scenario("signal-c-eventfd", .c, .signal, "await_notice") { stage in
      begin_notice(1800)
      try stage.turn { await_notice() }
    },
    Scenario("signal-c-inversion", .c, .signal, "await_forecast") { stage in
      begin_forecast(1800)
      try stage.turn { await_forecast() }
    },
    Scenario("signal-cpp-future", .cpp, .signal, "shop::awaitQuote") { stage in
      enter_begin_quote(1800)
      try stage.turn { enter_await_quote() }
    },
  ]

  static let threadEnds = [
    Scenario("thread-end-swift", .swift, .threadEnd, "awaitExport(_:)", holder: "exportCatalogue()") { stage in
      var thread = pthread_t()
      pthread_create(
        &thread,
        nil,
        { _ in
          exportCatalogue()
          return nil
        },
        nil
      )
      try stage.turn { awaitExport(thread) }
    },
    Scenario("thread-end-c", .c, .threadEnd, "await_import", holder: "import_catalogue") { stage in
      begin_import(1800)
      try stage.turn { await_import() }
    },
    Scenario("thread-end-cpp", .cpp, .threadEnd, "shop::stopFlusher", holder: "shop::flushOrders") { stage in
      enter_begin_flushing(1800)
      try stage.turn { enter_stop_flusher() }
    },
  ]

  static let initializations = [
    Scenario("initialization-static", .swift, .initialization, "showPrice()", holder: "loadExchangeRates()") { stage in
      Thread.detachNewThread { keep(Rates.current.count) }
      isLoading.wait()
      try stage.turn { showPrice() }
    },
    Scenario(
      "initialization-global",
      .swift,
      .initialization,
      "translateTitle()",
      holder: "loadTranslations()"
    ) { stage in
      Thread.detachNewThread { keep(translations.count) }
      isLoading.wait()
      try stage.turn { translateTitle() }
    },
    Scenario("initialization-c-once", .c, .initialization, "show_currency", holder: "load_currency_table") { stage in
      begin_currency_table(1800)
      try stage.turn { show_currency() }
    },
    Scenario("initialization-cpp-once", .cpp, .initialization, "shop::applyTax", holder: "shop::loadTaxRules") {
      stage in
      enter_begin_tax_rules(1800)
      try stage.turn { enter_apply_tax() }
    },
    Scenario(
      "initialization-cpp-static",
      .cpp,
      .initialization,
      "shop::showCountry",
      holder: "shop::CountryNames::CountryNames"
    ) { stage in
      enter_begin_country_names(1800)
      try stage.turn { enter_show_country() }
    },
  ]

  static let loaders = [
    // Another thread iterates over the list of modules slowly.
    Scenario("loader-c-open", .c, .loader, "open_plugin", holder: "inspect_module") { stage in
      begin_listing_modules(1800)
      try stage.turn { open_plugin() }
    },
    Scenario("loader-cpp-list", .cpp, .loader, "shop::listLibraries", holder: "inspect_module") { stage in
      begin_listing_modules(1800)
      try stage.turn { enter_list_libraries() }
    },
    // Another thread opens a library from a pipe without data.
    Scenario("loader-c-symbol", .c, .loader, "find_entry_point", holder: "load_driver") { stage in
      let path = try namedPipe(in: stage)
      try path.withCString { path in
        begin_loading_driver(path, 1800)
        try stage.turn { find_entry_point() }
      }
    },
    Scenario("loader-swift-symbol", .swift, .loader, "findModule(named:)", holder: "load_driver") { stage in
      let path = try namedPipe(in: stage)
      try path.withCString { path in
        begin_loading_driver(path, 1800)
        try stage.turn { findModule(named: "shop_module") }
      }
    },
  ]

  static let sleeping = [
    Scenario("sleep-swift-thread", .swift, .sleep, "pauseBetweenPages()") { stage in
      try stage.turn { pauseBetweenPages() }
    },
    // Two functions have half of the time each. The difference is noise, so their caller is the culprit.
    Scenario("sleep-swift-tie", .swift, .sleep, "visitDevices()", texts: ["divided between "], [.dense]) { stage in
      try stage.turn { visitDevices() }
    },
    Scenario("sleep-swift-stopped", .swift, .sleep, also: [.suspension], "retryLater()") { stage in
      let stopper = cause_stopper(1000, 1500)
      try stage.turn { retryLater() }
      cause_end_child(stopper)
    },
    Scenario("sleep-c", .c, .sleep, "throttle_requests") { stage in
      try stage.turn { throttle_requests(until(1.8)) }
    },
    Scenario("sleep-c-poll", .c, .sleep, "poll_nothing_new") { stage in try stage.turn { poll_nothing_new(1800) } },
    Scenario("sleep-c-timer", .c, .sleep, "await_tick") { stage in try stage.turn { await_tick(1800) } },
    // A library retries a file lock.
    Scenario(
      "sleep-c-library",
      .c,
      .sleep,
      "store_sale",
      texts: ["waiting in sqlite3_exec, which sleeps and tries again", "/sales.db is locked by process"]
    ) { stage in
      guard cause_open_database() else { throw Unavailable("libsqlite3.so.0 is not installed") }
      let path = "\(stage.directory)/sales.db"
      let child = hold_database(path, 1800)
      try stage.turn { store_sale(path) }
      cause_end_child(child)
    },
    Scenario("sleep-cpp", .cpp, .sleep, "shop::backOff") { stage in try stage.turn { enter_back_off(1800) } },
    Scenario("sleep-cpp-select", .cpp, .sleep, "shop::paceRetries") { stage in
      try stage.turn { enter_pace_retries(1800) }
    },
  ]
}

/// Creates a named pipe with the name of a library.
private func namedPipe(in stage: Stage) throws -> String {
  let path = "\(stage.directory)/driver.so"
  guard mkfifo(path, 0o600) == 0 else { throw Unavailable("there are no named pipes in \(stage.directory)") }
  return path
}

@inline(never) private func awaitShop(_ semaphore: DispatchSemaphore) {
  semaphore.wait()
  keep(1)
}

@inline(never) private func awaitImages(_ group: DispatchGroup) {
  group.wait()
  keep(2)
}

@inline(never) private func awaitTable(_ condition: NSCondition) {
  condition.lock()
  condition.wait()
  condition.unlock()
  keep(3)
}

@inline(never) private func awaitThumbnail(_ semaphore: DispatchSemaphore) {
  keep(semaphore.wait(timeout: .now() + .seconds(30)) == .success ? 4 : 5)
}

@inline(never) private func scaleAll(until end: UInt64) {
  let both = DispatchGroup()
  for _ in 0..<2 { both.enter() }
  DispatchQueue.concurrentPerform(iterations: 2) { _ in
    // Ensures that each thread runs one iteration.
    both.leave()
    _ = both.wait(timeout: .now() + .seconds(30))
    if !Thread.isMainThread { scaleThumbnail(until: end) }
  }
  keep(8)
}

@inline(never) private func scaleThumbnail(until end: UInt64) {
  var value: UInt64 = 1
  while cause_now() < end { for _ in 0..<5000 { value = value &* 1_181_783_497_276_652_981 &+ 5 } }
  keep(Int(value & 3))
}

@inline(never) private func exportCatalogue() {
  usleep(1_800_000)
  keep(6)
}

@inline(never) private func awaitExport(_ thread: pthread_t) {
  pthread_join(thread, nil)
  keep(7)
}

private enum Rates {
  static let current: [Double] = loadExchangeRates()
}

/// Signalled when another thread has begun the one-time initialization.
private let isLoading = DispatchSemaphore(value: 0)

@inline(never) private func loadExchangeRates() -> [Double] {
  isLoading.signal()
  usleep(1_800_000)
  return [1.08, 0.85, 157.2]
}

@inline(never) private func showPrice() {
  keep(Rates.current.count)
  keep(8)
}

private let translations: [String: String] = loadTranslations()

@inline(never) private func loadTranslations() -> [String: String] {
  isLoading.signal()
  usleep(1_800_000)
  return ["tea": "Tee"]
}

@inline(never) private func translateTitle() {
  keep(translations.count)
  keep(9)
}

@inline(never) private func findModule(named name: String) {
  keep(dlsym(dlopen(nil, RTLD_NOW), name) == nil ? 10 : 11)
}

@inline(never) private func pauseBetweenPages() {
  Thread.sleep(forTimeInterval: 1.8)
  keep(12)
}

@inline(never) private func visitDevices() {
  pauseAtPrinter()
  pauseAtScanner()
  keep(13)
}

@inline(never) private func pauseAtPrinter() {
  usleep(2_000_000)
  keep(14)
}

@inline(never) private func pauseAtScanner() {
  usleep(2_000_000)
  keep(kept.load(ordering: .relaxed) & 1)
}

@inline(never) private func retryLater() {
  // Many short sleeps, because a stop of the process shortens only one of them.
  for _ in 0..<18 { Thread.sleep(forTimeInterval: 0.1) }
  keep(13)
}
