import Culprit
import NIOCore
import NIOHTTP1
import NIOPosix
import Stalls

/// Starts an HTTP server on loopback that answers each request by its path, in a watched section.
///
/// `/loop` blocks the event loop in `stallTheLoop()`.
///
/// - Parameters:
///   - group: The event loops.
///   - watchdog: The watchdog of requests.
///   - pool: The pool of `/query` and `/pool`.
/// - Returns: The server's channel.
/// - Throws: The error of the bind.
public func startHTTPServer(
  _ group: any EventLoopGroup,
  _ watchdog: Watchdog,
  pool: any ConnectionPool = ActorPool.shared
) async throws -> any Channel {
  try await startServer(group, isHTTP: true) { HTTPHandler(watchdog: watchdog, pool: pool) }
}

private final class HTTPHandler: ChannelInboundHandler, Sendable {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private let watchdog: Watchdog
  private let pool: any ConnectionPool

  init(watchdog: Watchdog, pool: any ConnectionPool) {
    self.watchdog = watchdog
    self.pool = pool
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard case .head(let head) = unwrapInboundIn(data) else { return }
    let request = String(head.uri.dropFirst())
    if request == "loop" { stallTheLoop() }
    let (channel, watchdog, pool) = (context.channel, watchdog, pool)
    Task {
      let text = try await watchdog.withRequest(label: "GET \(head.uri)", threshold: threshold(of: request)) {
        try await answer(request, watchdog, pool: pool)
      }
      let headers: HTTPHeaders = ["content-length": "\(text.utf8.count)", "connection": "close"]
      let start = HTTPResponseHead(version: head.version, status: .ok, headers: headers)
      channel.write(HTTPServerResponsePart.head(start), promise: nil)
      channel.write(HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(string: text))), promise: nil)
      try await channel.writeAndFlush(HTTPServerResponsePart.end(nil))
      try await channel.close()
    }
  }
}
