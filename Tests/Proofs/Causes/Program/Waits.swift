import CauseWork
import Foundation

extension Scenario {
  static let signals: [Scenario] = [
    Scenario("signal-semaphore", .signal, "awaitShop(_:)") { stage in
      let semaphore = DispatchSemaphore(value: 0)
      onThread("opening") { begun in
        begun()
        usleep(1_800_000)
        semaphore.signal()
      }
      try stage.turn { awaitShop(semaphore) }
    },
    Scenario("signal-group", .signal, "awaitImages(_:)") { stage in
      let group = DispatchGroup()
      for _ in 0..<2 { DispatchQueue.global().async(group: group) { usleep(1_800_000) } }
      try stage.turn { awaitImages(group) }
    },
    Scenario("signal-nscondition", .signal, "awaitTable(_:)") { stage in
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
    // One iteration is short, the other one is long and runs on another thread.
    .turn("signal-concurrent-perform", .signal, "scaleAll(until:)") { scaleAll(until: until(1.8)) },
    // A busy block of low priority would signal.
    Scenario("signal-swift-inversion", .signal, "awaitThumbnail(_:)") { stage in
      let semaphore = DispatchSemaphore(value: 0)
      DispatchQueue.global(qos: .background).async {
        scaleThumbnail(until: until(1.8))
        semaphore.signal()
      }
      try stage.turn { awaitThumbnail(semaphore) }
    },
    .turn("signal-c-semaphore", .signal, "await_shipment", after: begin_shipment) { await_shipment() },
    .turn("signal-c-condition", .signal, "await_payment", after: begin_payment) { await_payment() },
    .turn("signal-c-eventfd", .signal, "await_notice", after: begin_notice) { await_notice() },
    .turn("signal-cpp-future", .signal, "shop::awaitQuote", after: enter_begin_quote) { enter_await_quote() },
  ]

  static let threadEnds: [Scenario] = [
    .turn("thread-end-c", .threadEnd, "await_import", holder: "import_catalogue", after: begin_import) {
      await_import()
    },
    .turn("thread-end-cpp", .threadEnd, "shop::stopFlusher", holder: "shop::flushOrders", after: enter_begin_flushing) {
      enter_stop_flusher()
    },
  ]

  static let initializations: [Scenario] = [
    Scenario("initialization-static", .initialization, "showPrice()", holder: "loadExchangeRates()") { stage in
      Thread.detachNewThread { keep(Rates.current.count) }
      isLoading.wait()
      try stage.turn { showPrice() }
    },
    .turn(
      "initialization-c-once",
      .initialization,
      "show_currency",
      holder: "load_currency_table",
      after: begin_currency_table
    ) { show_currency() },
    .turn(
      "initialization-cpp-static",
      .initialization,
      "shop::showCountry",
      holder: "shop::CountryNames::CountryNames",
      after: enter_begin_country_names
    ) { enter_show_country() },
  ]

  static let loaders: [Scenario] = [
    // Another thread iterates over the list of modules slowly.
    .turn("loader-c-open", .loader, "open_plugin", holder: "inspect_module", after: begin_listing_modules) {
      open_plugin()
    },
    .turn("loader-cpp-list", .loader, "shop::listLibraries", holder: "inspect_module", after: begin_listing_modules) {
      enter_list_libraries()
    },
    // Another thread opens a library from a pipe without data.
    Scenario("loader-c-symbol", .loader, "find_entry_point", holder: "load_driver") { stage in
      let path = try namedPipe("driver.so", in: stage)
      try path.withCString { path in
        begin_loading_driver(path, 1800)
        try stage.turn { find_entry_point() }
      }
    },
  ]

  static let sleeping: [Scenario] = [
    .turn("sleep-swift-thread", .sleep, "pauseBetweenPages()") { pauseBetweenPages() },
    // Two functions have half of the time each. The difference is noise, so their caller is the culprit.
    .turn("sleep-swift-tie", .sleep, "visitDevices()", texts: ["divided between "], interval: .milliseconds(10)) {
      visitDevices()
    },
    Scenario("sleep-swift-stopped", .sleep, "retryLater()") { stage in
      let stopper = cause_stopper(1000, 1500)
      try stage.turn { retryLater() }
      cause_end_child(stopper)
    },
    .turn("sleep-c", .sleep, "throttle_requests") { throttle_requests(until(1.8)) },
    .turn("sleep-c-poll", .sleep, "poll_nothing_new") { poll_nothing_new(1800) },
    .turn("sleep-c-timer", .sleep, "await_tick") { await_tick(1800) },
    // A library tries a file lock again and again.
    Scenario(
      "sleep-c-library",
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
    .turn("sleep-cpp", .sleep, "shop::backOff") { enter_back_off(1800) },
    .turn("sleep-cpp-select", .sleep, "shop::paceRetries") { enter_pace_retries(1800) },
  ]
}

func namedPipe(_ name: String, in stage: Stage) throws -> String {
  let path = "\(stage.directory)/\(name)"
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
  // In parts, so that a stop of the process cannot shorten the sleep by more than one of them.
  for _ in 0..<18 { Thread.sleep(forTimeInterval: 0.1) }
  keep(13)
}
