// A Hummingbird 2 service. `tools/check-integrations` stalls it and reads its log.

import Culprit
import CulpritHummingbird
import CulpritLogging
import CulpritNIO
import CulpritServiceLifecycle
import Hummingbird
import Logging
import NIOPosix
import Servers
import Stalls

var logger = Logger(label: "hummingbird-service")
logger.logLevel = .debug

let watchdog = try Watchdog(threshold: .milliseconds(1500), logger: logger)
try watchdog.watchConcurrency()
try watchdog.watch(MultiThreadedEventLoopGroup.singleton)

let router = Router()
router.add(middleware: StallMiddleware(watchdog, threshold: .milliseconds(500), routes: ["/patient": .seconds(30)]))
for request in requests + ["metrics"] {
  router.get(RouterPath(request)) { _, _ in try await answer(request, watchdog) }
}
router.get("loop") { _, _ in
  try await MultiThreadedEventLoopGroup.singleton.any().submit { stallTheLoop() }.get()
  return "loop\n"
}

let application = Application(
  router: router,
  configuration: .init(address: .hostname("127.0.0.1", port: 0)),
  services: [WatchdogService(watchdog)],
  onServerRunning: { printAddress(port: $0.localAddress?.port) },
  logger: logger
)
try await application.runService()
