// Mask and unmask ids in a program, as mask_id() of doc/mask.sql does, with FF1 of @noble/ciphers.
import { createHash } from 'node:crypto'
import { FF1 } from '@noble/ciphers/ff1.js'

const ff1 = (key, tweak) => FF1(2, createHash('sha256').update(key).digest(), Buffer.from(tweak))
const toBits = id => Array.from(BigInt(id).toString(2).padStart(63, '0'), Number)
const toId = bits => BigInt('0b' + bits.join(''))

export const mask = (id, key, tweak = '') => toId(ff1(key, tweak).encrypt(toBits(id)))
export const unmask = (masked, key, tweak = '') => toId(ff1(key, tweak).decrypt(toBits(masked)))
