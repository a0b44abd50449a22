import CauseWork
import Foundation

extension Scenario {
  static let network: [Scenario] = [
    Scenario("network-swift-handle", .network, "readAnswer(from:)") { stage in
      let connection = try connected(begin_warehouse(1800))
      try stage.turn { readAnswer(from: FileHandle(fileDescriptor: connection)) }
    },
    Scenario("network-c-receive", .network, "ask_warehouse") { stage in
      let connection = try connected(begin_warehouse(1800))
      try stage.turn { ask_warehouse(connection) }
    },
    Scenario("network-c-poll", .network, "poll_warehouse") { stage in
      let connection = try connected(begin_warehouse(1800))
      try stage.turn { poll_warehouse(connection) }
    },
    Scenario("network-c-connect", .network, "connect_to_bank") { stage in
      var listener: Int32 = -1
      let port = try connected(begin_busy_bank(&listener))
      try stage.turn { connect_to_bank(port, 1800) }
      close(listener)
    },
    Scenario("network-c-send", .network, "upload_images") { stage in
      let connection = try connected(begin_slow_reader(1800))
      try stage.turn { upload_images(connection) }
    },
    Scenario("network-cpp-select", .network, "shop::awaitAnswer") { stage in
      let connection = try connected(begin_warehouse(1800))
      try stage.turn { enter_await_answer(connection) }
    },
  ]
}

/// Returns `number`, or throws if it is negative: there is no loopback interface.
func connected(_ number: Int32) throws -> Int32 {
  guard number >= 0 else { throw Unavailable("there are no connections by way of 127.0.0.1") }
  return number
}

@inline(never) private func readAnswer(from connection: FileHandle) {
  keep(connection.availableData.count)
  keep(1)
}
