// A Hummingbird 2 service. `tools/check-integrations` stalls it and reads its log.

import Culprit
import CulpritHummingbird
import CulpritLogging
import CulpritNIO
import CulpritServiceLifecycle
import Foundation
import Hummingbird
import Logging
import NIOPosix

@inline(never) func stallTheLoop() { Thread.sleep(forTimeInterval: 1) }
@inline(never) func stallTheSection() { Thread.sleep(forTimeInterval: 1) }

var logger = Logger(label: "hummingbird-service")
logger.logLevel = .debug

let watchdog = try Watchdog(logger: logger)
try watchdog.watchConcurrency()
try watchdog.watch(MultiThreadedEventLoopGroup.singleton)

let router = Router()
router.add(middleware: StallMiddleware(watchdog, threshold: .milliseconds(500), routes: ["/patient": .seconds(30)]))
router.get("echo") { _, _ in "echo\n" }
router.get("loop") { _, _ in
  try await MultiThreadedEventLoopGroup.singleton.any().submit { stallTheLoop() }.get()
  return "loop\n"
}
router.get("section") { _, _ in
  stallTheSection()
  return "section\n"
}
router.get("patient") { _, _ in
  try await Task.sleep(for: .seconds(1))
  return "patient\n"
}

let application = Application(
  router: router,
  configuration: .init(address: .hostname("127.0.0.1", port: 0)),
  services: [WatchdogService(watchdog)],
  onServerRunning: { channel in
    print("listening on 127.0.0.1:\(channel.localAddress?.port ?? 0)")
    fflush(nil)
  },
  logger: logger
)
try await application.runService()
