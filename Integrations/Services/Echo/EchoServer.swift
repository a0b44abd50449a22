import Culprit
import Foundation
import NIOCore
import NIOPosix

/// Starts a server on loopback that returns each chunk that it receives.
///
/// `loop` blocks the event loop for a second in `stallTheLoop()`, `section` a request in `stallTheSection()`.
///
/// - Parameters:
///   - group: The event loops.
///   - watchdog: The watchdog of requests.
/// - Returns: The server's channel.
/// - Throws: The error of the bind.
public func startEchoServer(_ group: any EventLoopGroup, _ watchdog: Watchdog) async throws -> any Channel {
  let channel = try await ServerBootstrap(group: group)
    .childChannelInitializer { channel in
      channel.eventLoop.makeCompletedFuture {
        try channel.pipeline.syncOperations.addHandler(EchoHandler(watchdog: watchdog))
      }
    }
    .bind(host: "127.0.0.1", port: 0).get()
  print("listening on 127.0.0.1:\(channel.localAddress?.port ?? 0)")
  fflush(nil)
  return channel
}

private final class EchoHandler: ChannelInboundHandler, Sendable {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let watchdog: Watchdog

  init(watchdog: Watchdog) { self.watchdog = watchdog }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let chunk = unwrapInboundIn(data)
    switch String(buffer: chunk) {
    case "loop\n": stallTheLoop()
    case "section\n":
      let channel = context.channel
      Task {
        await watchdog.withRequest(label: "section", threshold: .milliseconds(500)) { stallTheSection() }
        try await channel.writeAndFlush(chunk)
      }
      return
    default: break
    }
    context.writeAndFlush(wrapOutboundOut(chunk), promise: nil)
  }
}
