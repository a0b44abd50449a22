import CauseWork
import Foundation

extension Scenario {
  static let network = [
    Scenario("network-swift-receive", .swift, .network, "askPriceServer(_:)") { stage in
      let connection = try connected(begin_warehouse(1800))
      try stage.turn { askPriceServer(connection) }
    },
    Scenario("network-swift-handle", .swift, .network, "readAnswer(from:)") { stage in
      let connection = try connected(begin_warehouse(1800))
      try stage.turn { readAnswer(from: FileHandle(fileDescriptor: connection)) }
    },
    Scenario("network-c-receive", .c, .network, "ask_warehouse") { stage in
      let connection = try connected(begin_warehouse(1800))
      try stage.turn { ask_warehouse(connection) }
    },
    Scenario("network-c-poll", .c, .network, "poll_warehouse") { stage in
      let connection = try connected(begin_warehouse(1800))
      try stage.turn { poll_warehouse(connection) }
    },
    Scenario("network-c-connect", .c, .network, "connect_to_bank") { stage in
      var listener: Int32 = -1
      let port = try connected(begin_busy_bank(&listener))
      try stage.turn { connect_to_bank(port, 1800) }
      close(listener)
    },
    Scenario("network-c-send", .c, .network, "upload_images") { stage in
      let connection = try connected(begin_slow_reader(1800))
      try stage.turn { upload_images(connection) }
    },
    Scenario("network-cpp-select", .cpp, .network, "shop::awaitAnswer") { stage in
      let connection = try connected(begin_warehouse(1800))
      try stage.turn { enter_await_answer(connection) }
    },
  ]
}

/// Returns `number`. Throws if it is negative, which means that the loopback interface is missing.
func connected(_ number: Int32) throws -> Int32 {
  guard number >= 0 else { throw Unavailable("cannot connect through 127.0.0.1") }
  return number
}

@inline(never) private func askPriceServer(_ connection: Int32) {
  var bytes = [UInt8](repeating: 0, count: 100)
  keep(recv(connection, &bytes, bytes.count, 0))
}

@inline(never) private func readAnswer(from connection: FileHandle) {
  keep(connection.availableData.count)
  keep(1)
}
