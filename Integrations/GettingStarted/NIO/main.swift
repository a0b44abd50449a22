// An HTTP service with SwiftNIO and no framework.

import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix

@inline(never) func rebuildTheIndex() { Thread.sleep(forTimeInterval: 5) }

func handle(_ request: HTTPRequestHead) async throws { if request.uri == "/stall" { rebuildTheIndex() } }

let eventLoopGroup = MultiThreadedEventLoopGroup.singleton
// Culprit
let server = try await ServerBootstrap(group: eventLoopGroup)
  .bind(host: "127.0.0.1", port: 0) { channel in
    channel.eventLoop.makeCompletedFuture {
      try channel.pipeline.syncOperations.configureHTTPServerPipeline()
      return try NIOAsyncChannel<HTTPServerRequestPart, HTTPServerResponsePart>(wrappingChannelSynchronously: channel)
    }
  }
print("listening on 127.0.0.1:\(server.channel.localAddress?.port ?? 0)")
fflush(nil)

try await server.executeThenClose { connections in
  for try await connection in connections {
    Task.detached {
      try await connection.executeThenClose { parts, response in
        for try await case .head(let request) in parts {
          try await handle(request)
          let headers: HTTPHeaders = ["content-length": "0", "connection": "close"]
          try await response.write(.head(HTTPResponseHead(version: .http1_1, status: .ok, headers: headers)))
          try await response.write(.end(nil))
          return
        }
      }
    }
  }
}
