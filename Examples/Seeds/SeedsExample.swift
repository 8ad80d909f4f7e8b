// The samples of the documents that Chapar comes from, as they read here: one file for each document. Comments name what
// differs from the original and why. Simulators take the platforms' places: `swift run SeedsExample`.
import Logging
import ChaparHTTP
import ChaparSandbox

@main
enum SeedsExample {
    static func main() async throws {
        try await Sandbox.run { sandbox in
            try await PushClient.run(logger: Logger(label: "seeds")) { client in
                try await OAuth2Seed.run(client, sandbox)
                try await AltcraftSeed.run(client, sandbox)
                try await IDPushSeed.run(client, sandbox)
                try await ChabokSeed.run(client, sandbox)
            }
        }
    }
}
