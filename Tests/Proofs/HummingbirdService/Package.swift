// swift-tools-version: 6.1
import PackageDescription

let package = Package(
  name: "hummingbird-process",
  platforms: [.macOS(.v15)],
  dependencies: [
    .package(name: "culprit", path: "CULPRIT"),
    .package(url: "https://github.com/hummingbird-project/hummingbird.git", from: "2.0.0"),
  ],
  targets: [
    .executableTarget(
      name: "hummingbird-process",
      dependencies: [
        .product(name: "Culprit", package: "culprit"), .product(name: "Hummingbird", package: "hummingbird"),
      ],
      path: "Sources"
    )
  ]
)
