import Culprit
import NIOCore
import NIOPosix
import Stalls

/// Starts a TCP server on loopback that echoes each line. A line must arrive as one chunk.
///
/// `loop` blocks the event loop in `stallTheLoop()`. `answer` answers other requests, in a watched section.
///
/// - Parameters:
///   - group: The event loops.
///   - watchdog: The watchdog of requests.
/// - Returns: The server's channel.
/// - Throws: The error of the bind.
public func startEchoServer(_ group: any EventLoopGroup, _ watchdog: Watchdog) async throws -> any Channel {
  try await startServer(group) { EchoHandler(watchdog: watchdog) }
}

private final class EchoHandler: ChannelInboundHandler, Sendable {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let watchdog: Watchdog

  init(watchdog: Watchdog) { self.watchdog = watchdog }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let request = String(String(buffer: unwrapInboundIn(data)).prefix { $0 != "\n" })
    if request == "loop" { stallTheLoop() }
    guard request == "metrics" || requests.dropFirst().contains(request) else {
      context.writeAndFlush(data, promise: nil)
      return
    }
    let (channel, watchdog) = (context.channel, watchdog)
    Task {
      let text = try await watchdog.withRequest(label: request, threshold: threshold(of: request)) {
        try await answer(request, watchdog)
      }
      try await channel.writeAndFlush(ByteBuffer(string: text))
      // Closing the connection ends an answer with many lines.
      if request == "metrics" { try await channel.close() }
    }
  }
}
