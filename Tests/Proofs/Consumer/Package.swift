// swift-tools-version: TOOLS
import PackageDescription

// A service's package as somebody else has it: targets called as parts of Culprit could be, and every member of the module
// that is imported. `check` puts the version of the tools and the path of Culprit into it.
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
