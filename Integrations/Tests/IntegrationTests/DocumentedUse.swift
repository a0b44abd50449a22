// Code of the documentation that uses products of this package. `DocumentedUseTests` compares it with the pages.

import Culprit
import CulpritHummingbird
import CulpritLogging
import CulpritMetrics
import CulpritNIO
import CulpritServiceLifecycle
import CulpritTesting
import CulpritTracing
import CulpritVapor
import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle
import Testing
import Vapor

struct Work: Sendable {}
func handle(_ request: Work) async throws {}
func transfer() async throws {}

func watchLoops(_ watchdog: Watchdog, _ eventLoopGroup: any EventLoopGroup, _ request: Work) async throws {
  try watchdog.watch(eventLoopGroup)
  try await watchdog.withRequest(label: "GET /orders/4711", threshold: .seconds(2)) { try await handle(request) }
}

func watchHummingbird(_ watchdog: Watchdog) throws {
  let router = Hummingbird.Router()
  try watchdog.watchConcurrency()
  try watchdog.watch(EventLoopGroupProvider.singleton.eventLoopGroup)
  router.add(middleware: StallMiddleware(watchdog, threshold: .seconds(2), routes: ["/reports/{id}": .seconds(30)]))
}

func watchHummingbirdBriefly(_ watchdog: Watchdog) throws {
  let router = Hummingbird.Router()
  router.add(middleware: StallMiddleware(watchdog, threshold: .seconds(2)))
}

func watchVaporBriefly(_ app: Vapor.Application) throws {
  try app.culprit.use(directory: "/var/lib/shop/stalls")
}

func watchVapor(_ app: Vapor.Application) throws {
  try app.culprit.use(directory: "/var/lib/shop/stalls", routes: ["/reports/:id": .seconds(30)])
}

func log(_ logger: Logger) throws {
  let watchdog = try Watchdog(threshold: .seconds(4), directory: "/var/lib/shop/stalls", logger: logger)
  watchdog.stop()
}

func run(_ watchdog: Watchdog, _ server: some Service, _ logger: Logger) async throws {
  let group = ServiceGroup(
    services: [WatchdogService(watchdog), server],
    gracefulShutdownSignals: [.sigterm],
    logger: logger
  )
  try await group.run()
}

func export(_ watchdog: Watchdog) {
  watchdog.exportMetrics()
}

func trace(_ watchdog: Watchdog, _ request: Work) async throws {
  try await watchdog.withTracedRequest(threshold: .seconds(2)) { try await handle(request) }
}

struct DocumentedTests {
  @Test(.stallLimit(.seconds(1))) func transfersBetweenAccounts() async throws { try await transfer() }
}
