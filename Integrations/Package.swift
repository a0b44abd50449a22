// swift-tools-version: 6.1
import PackageDescription

/// The public packages, each with the oldest usable version.
let dependencies: [Package.Dependency] = [
  .package(name: "culprit", path: ".."),
  .package(url: "https://github.com/apple/swift-distributed-tracing.git", from: "1.3.0"),
  .package(url: "https://github.com/apple/swift-log.git", from: "1.8.0"),
  .package(url: "https://github.com/apple/swift-metrics.git", from: "2.5.0"),
  .package(url: "https://github.com/apple/swift-nio.git", from: "2.51.0"),
  .package(url: "https://github.com/grpc/grpc-swift-2.git", from: "2.4.0"),
  .package(url: "https://github.com/grpc/grpc-swift-nio-transport.git", from: "2.9.0"),
  .package(url: "https://github.com/hummingbird-project/hummingbird.git", from: "2.0.0"),
  .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.1.0"),
  .package(url: "https://github.com/vapor/postgres-nio.git", from: "1.33.0"),
  .package(url: "https://github.com/vapor/vapor.git", from: "4.100.0"),
]

/// Returns a product that is fetched and used only if a trait is enabled.
func product(_ name: String, _ package: String, trait: String) -> Target.Dependency {
  .product(name: name, package: package, condition: .when(traits: [trait]))
}

let culprit = Target.Dependency.product(name: "Culprit", package: "culprit")
let hummingbird = product("Hummingbird", "hummingbird", trait: "Hummingbird")
let lifecycle = product("ServiceLifecycle", "swift-service-lifecycle", trait: "ServiceLifecycle")
let logging = product("Logging", "swift-log", trait: "Logging")
let metrics = product("Metrics", "swift-metrics", trait: "Metrics")
let nioCore = product("NIOCore", "swift-nio", trait: "NIO")
let nioHTTP = product("NIOHTTP1", "swift-nio", trait: "NIO")
let nioPosix = product("NIOPosix", "swift-nio", trait: "NIO")
let tracing = product("Tracing", "swift-distributed-tracing", trait: "Tracing")
let vapor = product("Vapor", "vapor", trait: "Vapor")

/// One trait for each third-party package, so a service fetches only the packages in use. Traits are enabled by
/// default, except those that only services of the check need.
let traits: Set<Trait> = [
  "GRPC", "PostgreSQL",
  "Hummingbird", "Logging", "Metrics", "NIO", "ServiceLifecycle", "Tracing",
  .trait(name: "Vapor", enabledTraits: ["Logging", "NIO"]),
  .default(enabledTraits: ["Hummingbird", "Logging", "Metrics", "NIO", "ServiceLifecycle", "Tracing", "Vapor"]),
]

/// One library for each package that a service uses.
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

/// The services of `tools/check-integrations`, and the tests.
let checks: [Target] = [
  .target(name: "Stalls", dependencies: [culprit], path: "Services/Stalls"),
  .target(
    name: "Servers",
    dependencies: [culprit, "Stalls", nioCore, nioHTTP, nioPosix],
    path: "Services/Servers"
  ),
  .executableTarget(
    name: "nio-service",
    dependencies: [culprit, "CulpritLogging", "CulpritNIO", "Servers", logging, nioPosix],
    path: "Services/NIO"
  ),
  .executableTarget(
    name: "lifecycle-service",
    dependencies: [
      culprit, "CulpritLogging", "CulpritNIO", "CulpritServiceLifecycle", "Servers", lifecycle, logging, nioPosix,
    ],
    path: "Services/ServiceLifecycle"
  ),
  .executableTarget(
    name: "hummingbird-service",
    dependencies: [
      culprit, "CulpritHummingbird", "CulpritLogging", "CulpritNIO", "CulpritServiceLifecycle", "Servers", "Stalls",
      hummingbird, logging, nioPosix,
    ],
    path: "Services/Hummingbird"
  ),
  .executableTarget(
    name: "vapor-service",
    dependencies: [culprit, "CulpritVapor", "Servers", "Stalls", vapor],
    path: "Services/Vapor"
  ),
  .executableTarget(
    name: "postgres-service",
    dependencies: [
      culprit, "CulpritLogging", "CulpritNIO", "Servers", "Stalls", logging, nioPosix,
      product("PostgresNIO", "postgres-nio", trait: "PostgreSQL"),
    ],
    path: "Services/PostgreSQL"
  ),
  .executableTarget(
    name: "grpc-service",
    dependencies: [
      culprit, "CulpritLogging", "CulpritNIO", "Servers", "Stalls", logging, nioPosix,
      product("GRPCCore", "grpc-swift-2", trait: "GRPC"),
      product("GRPCNIOTransportHTTP2Posix", "grpc-swift-nio-transport", trait: "GRPC"),
    ],
    path: "Services/GRPC"
  ),
  .testTarget(
    name: "IntegrationTests",
    dependencies: [
      culprit, hummingbird, lifecycle, logging, metrics, nioCore, nioPosix, tracing, vapor,
      "CulpritHummingbird", "CulpritLogging", "CulpritMetrics", "CulpritNIO", "CulpritServiceLifecycle",
      "CulpritTesting", "CulpritTracing", "CulpritVapor",
      product("HummingbirdTesting", "hummingbird", trait: "Hummingbird"),
      product("InMemoryLogging", "swift-log", trait: "Logging"),
      product("InMemoryTracing", "swift-distributed-tracing", trait: "Tracing"),
      product("MetricsTestKit", "swift-metrics", trait: "Metrics"),
    ]
  ),
]

let package = Package(
  name: "culprit-integrations",
  platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
  products: libraries.map { .library(name: $0.name, targets: [$0.name]) },
  traits: traits,
  dependencies: dependencies,
  targets: libraries + checks
)
