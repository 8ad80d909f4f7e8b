// An import of ChaparSandbox brings all simulators, the kit that they are written with, and the client that sends to
// them.
@_exported public import ChaparClient
@_exported public import ChaparSimulator
@_exported public import ChaparAPNsSimulator
@_exported public import ChaparFCMSimulator
@_exported public import ChaparHMSSimulator
@_exported public import ChaparRuStoreSimulator
@_exported public import ChaparOneSignalSimulator
@_exported public import ChaparAltcraftSimulator
@_exported public import ChaparChabokSimulator
@_exported public import ChaparServiceSimulator
@_exported public import ChaparWebPushSimulator
@_exported public import ChaparOAuthSimulator
