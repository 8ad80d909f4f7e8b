// swift-tools-version: 6.2
import PackageDescription

// A gateway with a platform of one's own, as a package that uses Chapar and changes nothing in it.
let package = Package(
    name: "custom-plugin",
    products: [.library(name: "PushSMS", targets: ["PushSMS"])],
    dependencies: [
        .package(name: "chapar", path: "../.."),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    ],
    targets: [
        // The plugin: all it needs is the core.
        .target(name: "PushSMS", dependencies: [.product(name: "PushCore", package: "chapar")]),
        // The program: the commands of a gateway, for the platforms it lists.
        .executableTarget(
            name: "gate",
            dependencies: ["PushSMS", .product(name: "PushCommands", package: "chapar")]
        ),
        .testTarget(
            name: "PushSMSTests",
            dependencies: [
                "PushSMS", "gate",
                .product(name: "PushCore", package: "chapar"),
                .product(name: "PushHTTP", package: "chapar"),
                .product(name: "PushTesting", package: "chapar"),
                // The service that the tests talk to.
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)
