// swift-tools-version: TOOLS
import PackageDescription

// The package of a service that depends on Culprit. The targets have names that Culprit's modules might have. Each use
// of a member needs an import. `check` inserts the version of the tools and the path of Culprit.
let package = Package(
  name: "consumer",
  dependencies: [.package(name: "culprit", path: "CULPRIT")],
  targets: [
    .executableTarget(
      name: "consumer",
      dependencies: [
        .product(name: "Culprit", package: "culprit"), "Reports", "Symbols", "Blame", "CZlib", "CommandLineOptions",
      ],
      swiftSettings: [.enableUpcomingFeature("MemberImportVisibility"), .enableUpcomingFeature("ExistentialAny")]
    ),
    .target(name: "Reports"), .target(name: "Symbols"), .target(name: "Blame"), .target(name: "CZlib"),
    .target(name: "CommandLineOptions"),
  ]
)
