// swift-tools-version: 6.2
import PackageDescription

// A gateway with a platform of one's own, as a package that uses Chapar and changes nothing in it.
let package = Package(
    name: "push-sms",
    products: [.library(name: "ChaparSMS", targets: ["ChaparSMS"])],
    dependencies: [.package(name: "chapar", path: "../..")],
    targets: [
        // The plugin: all it needs is the core.
        .target(name: "ChaparSMS", dependencies: [.product(name: "ChaparCore", package: "chapar")]),
        // The platform's rules on this machine, for tests, `sandbox` and `demo`.
        .target(
            name: "ChaparSMSSimulator",
            dependencies: [.product(name: "ChaparSimulator", package: "chapar")]
        ),
        // The program: the commands of a gateway, for the platforms it lists.
        .executableTarget(
            name: "gate",
            dependencies: ["ChaparSMS", "ChaparSMSSimulator", .product(name: "ChaparCommands", package: "chapar")]
        ),
        .testTarget(
            name: "ChaparSMSTests",
            dependencies: [
                "ChaparSMS", "ChaparSMSSimulator", "gate",
                .product(name: "ChaparHTTP", package: "chapar"),
                .product(name: "ChaparTesting", package: "chapar"),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)
