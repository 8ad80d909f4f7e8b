// swift-tools-version: 6.2
import PackageDescription

// A gateway with a platform of one's own, as a package that uses Chapar and changes nothing in it.
let package = Package(
    name: "push-sms",
    products: [.library(name: "PushSMS", targets: ["PushSMS"])],
    dependencies: [.package(name: "chapar", path: "../..")],
    targets: [
        // The plugin: all it needs is the core.
        .target(name: "PushSMS", dependencies: [.product(name: "PushCore", package: "chapar")]),
        // The platform's rules on this machine, for tests, `sandbox` and `demo`.
        .target(
            name: "PushSMSSimulator",
            dependencies: [.product(name: "PushSandbox", package: "chapar")]
        ),
        // The program: the commands of a gateway, for the platforms it lists.
        .executableTarget(
            name: "gate",
            dependencies: ["PushSMS", "PushSMSSimulator", .product(name: "PushCommands", package: "chapar")]
        ),
        .testTarget(
            name: "PushSMSTests",
            dependencies: [
                "PushSMS", "PushSMSSimulator", "gate",
                .product(name: "PushHTTP", package: "chapar"),
                .product(name: "PushTesting", package: "chapar"),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)
