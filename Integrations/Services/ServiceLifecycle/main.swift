// A SwiftNIO service in a ServiceGroup. `tools/check-integrations` stalls it and reads its log.

import Culprit
import CulpritLogging
import CulpritNIO
import CulpritServiceLifecycle
import Logging
import NIOPosix
import Servers
import ServiceLifecycle

struct EchoService: Service {
  let watchdog: Watchdog

  func run() async throws {
    let channel = try await startEchoServer(MultiThreadedEventLoopGroup.singleton, watchdog)
    try await withGracefulShutdownHandler {
      try await channel.closeFuture.get()
    } onGracefulShutdown: {
      channel.close(promise: nil)
    }
  }
}

var logger = Logger(label: "lifecycle-service")
logger.logLevel = .debug

let watchdog = try Watchdog(threshold: .milliseconds(1500), logger: logger)
try watchdog.watch(MultiThreadedEventLoopGroup.singleton)
try watchdog.watchConcurrency()
let services: [any Service] = [WatchdogService(watchdog), EchoService(watchdog: watchdog)]
try await ServiceGroup(services: services, gracefulShutdownSignals: [.sigterm], logger: logger).run()
