import CauseWork
import Foundation

extension Scenario {
  /// Stalls with two causes, one of which takes clearly more of the time.
  static let mixed = [
    Scenario("mixed-computing-file", .c, .computing, also: [.file], "reconcile_books", work: .ownCode, [.mixed]) {
      stage in
      try stage.turn { reconcile_books(stage.directory, until(2)) }
    },
    Scenario("mixed-lock-sleep", .cpp, .lock, also: [.sleep], "shop::checkOut", holder: "shop::repriceBasket", [.mixed])
    { stage in
      enter_begin_checkout(1300)
      try stage.turn { enter_check_out(700) }
    },
    Scenario("mixed-sleep-computing", .cpp, .sleep, also: [.computing], "shop::pollAndParse", [.mixed]) { stage in
      try stage.turn { enter_poll_and_parse(until(2)) }
    },
    Scenario("mixed-signal-lock", .c, .signal, also: [.lock], "close_auction", holder: "count_bids", [.mixed]) {
      stage in
      begin_auction(2000)
      try stage.turn { close_auction() }
    },
    Scenario("mixed-network-json", .swift, .network, also: [.computing], "receiveCatalogue(_:)", [.mixed]) { stage in
      let connection = try connected(begin_warehouse(1400))
      try stage.turn {
        receiveCatalogue(connection)
        parseCatalogue(until: until(0.6))
      }
    },
    Scenario("mixed-child-file", .swift, .childProcess, also: [.file], "archiveOrders(after:in:)", [.mixed]) { stage in
      let child = try started("/bin/sleep", "1.4")
      try stage.turn { archiveOrders(after: child, in: stage.directory) }
    },
    Scenario("mixed-computing-sleep", .swift, .computing, also: [.sleep], "matchAddresses(until:)", [.mixed]) { stage in
      try stage.turn {
        matchAddresses(until: until(1.4))
        coolDown()
      }
    },
  ]
}

@inline(never) private func receiveCatalogue(_ connection: Int32) {
  var bytes = [UInt8](repeating: 0, count: 100)
  keep(recv(connection, &bytes, bytes.count, 0))
}

@inline(never) private func parseCatalogue(until end: UInt64) {
  let text = Data("[\(Array(repeating: "{\"tea\": [12, 5]}", count: 300).joined(separator: ", "))]".utf8)
  while cause_now() < end { keep(((try? JSONSerialization.jsonObject(with: text)) as? [Any])?.count ?? 0) }
}

@inline(never) private func archiveOrders(after child: pid_t, in directory: String) {
  var status: Int32 = 0
  while waitpid(child, &status, 0) < 0 && errno == EINTR {}
  let file = open("\(directory)/archive", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
  let end = until(0.6)
  while cause_now() < end {
    keep(pwrite(file, "orders", 6, 0))
    keep(Int(fsync(file)))
  }
  close(file)
}

@inline(never) private func matchAddresses(until end: UInt64) {
  let words = (0..<300).map { "street \($0 * 31 % 101)" }
  while cause_now() < end {
    var short: Set<String> = []
    for word in words { short.insert(word.replacing("street", with: "st.")) }
    keep(short.count)
  }
}

@inline(never) private func coolDown() {
  usleep(600_000)
  keep(1)
}
