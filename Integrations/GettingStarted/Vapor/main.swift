// The service of Vapor's template, on a free port. Prints its address.

import Foundation
import Vapor

@inline(never) func rebuildTheIndex() { Thread.sleep(forTimeInterval: 5) }

var env = try Environment.detect()
try LoggingSystem.bootstrap(from: &env)
let app = try await Application.make(env)
app.http.server.configuration.hostname = "127.0.0.1"
app.http.server.configuration.port = 0
// Culprit
app.get("stall") { _ async in
  rebuildTheIndex()
  return "done"
}
try await app.startup()
print("listening on 127.0.0.1:\(app.http.server.shared.localAddress?.port ?? 0)")
fflush(nil)
try await app.running?.onStop.get()
try await app.asyncShutdown()
