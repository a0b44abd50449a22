// swift-tools-version: 6.1
import PackageDescription

/// The public packages, each with the oldest version that has everything used here.
let dependencies: [Package.Dependency] = [
  .package(name: "culprit", path: ".."),
  .package(url: "https://github.com/apple/swift-distributed-tracing.git", from: "1.3.0"),
  .package(url: "https://github.com/apple/swift-log.git", from: "1.8.0"),
  .package(url: "https://github.com/apple/swift-metrics.git", from: "2.5.0"),
  .package(url: "https://github.com/apple/swift-nio.git", from: "2.51.0"),
  .package(url: "https://github.com/hummingbird-project/hummingbird.git", from: "2.0.0"),
  .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.1.0"),
  .package(url: "https://github.com/vapor/vapor.git", from: "4.100.0"),
]

let culprit = Target.Dependency.product(name: "Culprit", package: "culprit")
let hummingbird = Target.Dependency.product(name: "Hummingbird", package: "hummingbird")
let lifecycle = Target.Dependency.product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let metrics = Target.Dependency.product(name: "Metrics", package: "swift-metrics")
let nioCore = Target.Dependency.product(name: "NIOCore", package: "swift-nio")
let nioPosix = Target.Dependency.product(name: "NIOPosix", package: "swift-nio")
let tracing = Target.Dependency.product(name: "Tracing", package: "swift-distributed-tracing")
let vapor = Target.Dependency.product(name: "Vapor", package: "vapor")

/// The products, one library for each package that a service uses.
let libraries: [Target] = [
  .target(name: "CulpritHummingbird", dependencies: [culprit, hummingbird]),
  .target(name: "CulpritLogging", dependencies: [culprit, logging]),
  .target(name: "CulpritMetrics", dependencies: [culprit, metrics]),
  .target(name: "CulpritNIO", dependencies: [culprit, nioCore]),
  .target(name: "CulpritServiceLifecycle", dependencies: [culprit, lifecycle]),
  .target(name: "CulpritTesting", dependencies: [culprit]),
  .target(name: "CulpritTracing", dependencies: [culprit, tracing]),
  .target(name: "CulpritVapor", dependencies: [culprit, "CulpritLogging", "CulpritNIO", vapor]),
]

/// Services that `tools/check-integrations` runs, and the tests.
let checks: [Target] = [
  .target(
    name: "EchoServer",
    dependencies: [culprit, nioCore, nioPosix],
    path: "Services/Echo"
  ),
  .executableTarget(
    name: "nio-service",
    dependencies: [culprit, "CulpritLogging", "CulpritNIO", "EchoServer", logging, nioPosix],
    path: "Services/NIO"
  ),
  .executableTarget(
    name: "lifecycle-service",
    dependencies: [
      culprit, "CulpritLogging", "CulpritNIO", "CulpritServiceLifecycle", "EchoServer", lifecycle, logging, nioPosix,
    ],
    path: "Services/ServiceLifecycle"
  ),
  .executableTarget(
    name: "hummingbird-service",
    dependencies: [
      culprit, "CulpritHummingbird", "CulpritLogging", "CulpritNIO", "CulpritServiceLifecycle", hummingbird, logging,
      nioPosix,
    ],
    path: "Services/Hummingbird"
  ),
  .executableTarget(name: "vapor-service", dependencies: ["CulpritVapor", vapor], path: "Services/Vapor"),
  .testTarget(
    name: "IntegrationTests",
    dependencies: [
      culprit, hummingbird, lifecycle, logging, metrics, nioCore, nioPosix, tracing, vapor,
      "CulpritHummingbird", "CulpritLogging", "CulpritMetrics", "CulpritNIO", "CulpritServiceLifecycle",
      "CulpritTesting", "CulpritTracing", "CulpritVapor",
      .product(name: "HummingbirdTesting", package: "hummingbird"),
      .product(name: "InMemoryLogging", package: "swift-log"),
      .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
      .product(name: "MetricsTestKit", package: "swift-metrics"),
    ]
  ),
]

let package = Package(
  name: "culprit-integrations",
  platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
  products: libraries.map { .library(name: $0.name, targets: [$0.name]) },
  dependencies: dependencies,
  targets: libraries + checks
)
