"""Dividing an amount of one resource among siblings: the heart of every runtime.

Everybody's min first, as far as it is wanted, or whole where it is not lent. What is left goes to those who want more,
by weight, in whole steps that add up exactly: the largest remainder gets the odd one, and of equal ones the first in
order. Whoever gets more than it wants returns the rest, which is divided again among the others.

Pure arithmetic over parallel lists, siblings by name; what the numbers are is `column`'s business.
"""

from collections.abc import Sequence


def divide(
    total: int, mins: Sequence[int], wants: Sequence[int], weights: Sequence[int], lends: Sequence[bool] | None = None
) -> list[int]:
    """What each of the siblings gets of the total; all of them lend, unless it is said who does."""
    if lends is None:
        given = [want if want < least else least for least, want in zip(mins, wants, strict=True)]
    else:
        given = [
            want if want < least and is_lent else least for least, want, is_lent in zip(mins, wants, lends, strict=True)
        ]
    left = total - sum(given)
    if left <= 0:
        # Mins are promises: whether they may add up to more than there is was decided by scaling them, or not.
        return given
    hungry = [index for index, want in enumerate(wants) if want > given[index] and weights[index] > 0]
    while left > 0 and hungry:
        shares = apportion(left, [weights[index] for index in hungry])
        left = 0
        still: list[int] = []
        for index, share in zip(hungry, shares, strict=True):
            has, want = given[index] + share, wants[index]
            if has < want:
                given[index] = has
                still.append(index)
            else:
                given[index] = want
                left += has - want
        hungry = still
    return given


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """The total in whole parts by weight, by the method of the largest remainder; weights are positive."""
    whole = sum(weights)
    parts = [weight * total for weight in weights]
    shares = [part // whole for part in parts]
    odd = total - sum(shares)
    if odd:
        remainders = [part % whole for part in parts]
        # Reversed, a sort still leaves equals as they were: ties go to the first.
        for index in sorted(range(len(parts)), key=remainders.__getitem__, reverse=True)[:odd]:
            shares[index] += 1
    return shares


def scale(left: int, mins: Sequence[int], whole: int, scales: Sequence[bool] | None = None) -> list[int]:
    """The mins in proportion, where only so much is left for them as a whole; those that do not scale stay.

    Rounded down. What that leaves over is divided by weight, like everything else.
    """
    if scales is None:
        return [least * left // whole for least in mins]
    return [least * left // whole if is_scaled else least for least, is_scaled in zip(mins, scales, strict=True)]
