// A Vapor 4 service. `tools/check-integrations` stalls it and reads its log.

import CulpritVapor
import Foundation
import Vapor

@inline(never) func stallTheLoop() { Thread.sleep(forTimeInterval: 1) }
@inline(never) func stallTheSection() { Thread.sleep(forTimeInterval: 1) }

let application = try await Application.make(Environment(name: "production", arguments: ["vapor-service"]))
application.logger.logLevel = .debug
application.http.server.configuration.hostname = "127.0.0.1"
application.http.server.configuration.port = 0

try application.culprit.use(requests: .milliseconds(500), routes: ["/patient": .seconds(30)])

application.get("echo") { _ in "echo\n" }
application.get("loop") { request in
  try await request.eventLoop.submit { stallTheLoop() }.get()
  return "loop\n"
}
// A handler without `async` would run on an event loop.
application.get("section") { _ async in
  stallTheSection()
  return "section\n"
}
application.get("patient") { _ in
  try await Task.sleep(for: .seconds(1))
  return "patient\n"
}

do {
  try await application.startup()
  print("listening on 127.0.0.1:\(application.http.server.shared.localAddress?.port ?? 0)")
  fflush(nil)
  try await application.running?.onStop.get()
} catch {
  try? await application.asyncShutdown()
  throw error
}
try await application.asyncShutdown()
