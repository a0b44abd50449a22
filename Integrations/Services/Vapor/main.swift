// A Vapor 4 service. `tools/check-integrations` stalls it and reads its log.

import Culprit
import CulpritVapor
import Servers
import Stalls
import Vapor

let application = try await Application.make(Environment(name: "production", arguments: ["vapor-service"]))
application.logger.logLevel = .debug
application.http.server.configuration.hostname = "127.0.0.1"
application.http.server.configuration.port = 0

let watchdog = try application.culprit.use(
  Watchdog.Configuration(threshold: .milliseconds(1500)),
  requests: .milliseconds(500),
  routes: ["/patient": .seconds(30)]
)

for request in requests + ["metrics"] {
  application.get(.constant(request)) { _ in try await answer(request, watchdog) }
}
application.get("loop") { request in
  try await request.eventLoop.submit { stallTheLoop() }.get()
  return "loop\n"
}

do {
  try await application.startup()
  printAddress(port: application.http.server.shared.localAddress?.port)
  try await application.running?.onStop.get()
} catch {
  try? await application.asyncShutdown()
  throw error
}
try await application.asyncShutdown()
