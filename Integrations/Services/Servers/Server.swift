import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix

/// Starts a server on a free loopback port and prints its address.
///
/// - Parameters:
///   - group: The event loops.
///   - isHTTP: Whether handlers receive the parts of HTTP requests instead of bytes.
///   - handler: Creates the handler of a connection.
/// - Returns: The server's channel.
/// - Throws: The error of the bind.
func startServer(
  _ group: any EventLoopGroup,
  isHTTP: Bool = false,
  handler: @escaping @Sendable () -> some ChannelHandler & Sendable
) async throws -> any Channel {
  let channel = try await ServerBootstrap(group: group)
    .childChannelInitializer { channel in
      channel.eventLoop.makeCompletedFuture {
        if isHTTP { try channel.pipeline.syncOperations.configureHTTPServerPipeline() }
        try channel.pipeline.syncOperations.addHandler(handler())
      }
    }
    .bind(host: "127.0.0.1", port: 0).get()
  printAddress(port: channel.localAddress?.port)
  return channel
}

/// Prints the line for which the check waits.
public func printAddress(port: Int?) {
  print("listening on 127.0.0.1:\(port ?? 0)")
  fflush(nil)
}

/// Returns after the server has ended. SIGTERM closes the channel.
public func waitForTermination(of channel: any Channel) async throws {
  signal(SIGTERM, SIG_IGN)
  let termination = DispatchSource.makeSignalSource(signal: SIGTERM, queue: .main)
  termination.setEventHandler { channel.close(promise: nil) }
  termination.resume()
  try await channel.closeFuture.get()
  termination.cancel()
}
