// The service of Hummingbird's introduction.

import Foundation
import Hummingbird

@inline(never) func rebuildTheIndex() { Thread.sleep(forTimeInterval: 5) }

let router = Router()
// Culprit
router.get("stall") { _, _ in
  rebuildTheIndex()
  return "done"
}
let app = Application(
  router: router,
  configuration: .init(address: .hostname("127.0.0.1", port: 0)),
  onServerRunning: { channel in
    print("listening on 127.0.0.1:\(channel.localAddress?.port ?? 0)")
    fflush(nil)
  }
)
try await app.runService()
