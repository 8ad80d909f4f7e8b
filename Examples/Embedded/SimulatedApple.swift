import ChaparAPNs
import ChaparCore
import ChaparSandbox

/// What an account at Apple and its address would be.
enum SimulatedApple {
    static func options(_ sandbox: Sandbox) throws -> APNsOptions {
        let (keyID, teamID) = (sandbox.apns.key.keyID, sandbox.apns.key.teamID)
        let key = try APNsAuthKey(pem: Secret(sandbox.apns.key.pem))
        var options = APNsOptions(credential: .key(key, keyID: keyID, teamID: teamID), topic: Sandbox.topic)
        options.common.address = try .simulator(sandbox.apns.url(.production))
        options.common.trustPEM = sandbox.authority.certificatePEM
        return options
    }
}
